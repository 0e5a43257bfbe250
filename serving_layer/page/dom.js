// Builds elements and brings them into the page; text goes in as text only, because keys are anybody's words.

const SVG = "http://www.w3.org/2000/svg";

/** An element; attributes that are null, undefined or false are left out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

/** Makes the children of a node these ones, changing as little as possible.
 *
 * Tables are drawn anew every second: whoever has the focus in one, or a finger on it, must not lose it. Rows that
 * carry a data-key are recognised by it, others by their place.
 */
export function patch(parent, ...wanted) {
  const keyed = new Map();
  for (const node of parent.children) if (node.dataset.key !== undefined) keyed.set(node.dataset.key, node);
  let at = parent.firstChild;
  for (const node of wanted.flat().filter((each) => each !== null).map(asNode)) {
    const key = node.dataset?.key;
    const same = key === undefined ? (at && alike(at, node) ? at : null) : keyed.get(key);
    if (!same) {
      parent.insertBefore(node, at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else parent.insertBefore(same, at);
    bringUp(same, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    // Through the object model, which a content security policy does not take for an inline style.
    if (name === "style") for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined).map(asNode));
  return node;
}

const asNode = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

const alike = (one, other) => one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;

function bringUp(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) === value) continue;
    if (name === "style") old.style.cssText = value;
    else old.setAttribute(name, value);
  }
  patch(old, ...wanted.childNodes);
}
