"""How the Data Docs look: a style sheet that is part of each page, so that none has to be fetched."""

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
th, td { border-bottom: 1px solid #8884; padding: .35rem .6rem; text-align: left; vertical-align: top; }
h5, h6 { font-size: 1rem; margin: 1rem 0 0; }
ol { list-style: none; padding: 0; }
i { font-style: normal; font-weight: bold; }
.fa-times::before { content: "\\2717 failed"; color: #c0392b; }
.fa-check-circle::before { content: "\\2713"; color: #27ae60; }
.col-lg-2, .btn-group, a[data-toggle=collapse] { display: none; }
"""
