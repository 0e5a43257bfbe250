// Draws the charts of a notebook's page from the data beside them, in the colours of the page.
function draw() {
  const style = getComputedStyle(document.body);
  for (const place of document.querySelectorAll(".chart")) {
    const { data, layout } = JSON.parse(place.querySelector("script").textContent);
    const colours = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: style.color } };
    const figure = (place.figure ??= place.appendChild(document.createElement("div")));
    Plotly.react(figure, data, { ...layout, ...colours, autosize: true }, { responsive: true, displayModeBar: false });
  }
}

draw();
new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
