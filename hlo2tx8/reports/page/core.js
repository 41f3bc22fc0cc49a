// What all parts share: unpacking, text, charts, and which program, group, record and tile are chosen.

const ENGINE_COLORS = { KC: "#7d8794", RDMA: "#2f62c9", TDMA: "#8a5cc2", NE: "#d1541f", CT: "#1f8f5f", DTE: "#c79a14", WDMA: "#3aa6c4" };
const BOUND_COLORS = { ...ENGINE_COLORS, DDR: "#2f62c9", launch: "#aab2bd", issue: "#5d6672", barrier: "#8f4a63" };
const ENGINE_ORDER = ["KC", "RDMA", "TDMA", "NE", "CT", "DTE", "WDMA"]; // the way data takes
const OUTSIDE = -1;

/** What a block of the page holds, as values. */
async function unpack(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** An element: attributes, then children; strings become text, so no name can be markup. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") made.style.cssText = value;
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ECharts' tooltips are HTML.
const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const tip = (title, rows) => `<b>${escaped(title)}</b><br>` + rows.filter(Boolean).map(([k, v]) => `${escaped(k)}: ${escaped(v)}`).join("<br>");

const count = (value) => Math.round(value).toLocaleString("en-US");
const percent = (value) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;
const shorten = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
function scaled(value, unit, base = 1000) {
  const names = base === 1024 ? ["", "Ki", "Mi", "Gi", "Ti"] : ["", "k", "M", "G", "T", "P"];
  let step = 0;
  while (Math.abs(value) >= base && step < names.length - 1) [value, step] = [value / base, step + 1];
  return `${step === 0 ? Math.round(value) : value.toPrecision(3)} ${names[step]}${unit}`;
}
const bytes = (value) => scaled(value, "B");

/** Chosen now, and who is told when that changes: `program`, `group`, `record`, `tile`, `tab`. */
const chosen = { program: 0, group: OUTSIDE, record: OUTSIDE, tile: 0, tab: "" };
const listeners = [];
function choose(changes) {
  const changed = Object.keys(changes).filter((name) => chosen[name] !== changes[name]);
  if (!changed.length) return;
  Object.assign(chosen, changes);
  for (const listener of listeners) listener(new Set(changed));
}

let programs = [];
const program = () => programs[chosen.program];
const groupName = (number) => (number === OUTSIDE ? "no group" : program().groups[number].name);
const microseconds = (cycles) => (1e6 * cycles) / program().chip.clock_hz;

/** Of every record its group, or OUTSIDE. */
function groupOfRecords(of) {
  if (!of.groupOf) {
    of.groupOf = new Int32Array(of.records.length).fill(OUTSIDE);
    of.groups.forEach((group, number) => group.records.forEach(([first, end]) => of.groupOf.fill(number, first, end)));
  }
  return of.groupOf;
}

const charts = new Map();
/** The chart in an element, made at its first use; charts follow the window's size. */
function chart(element) {
  if (!charts.has(element)) charts.set(element, echarts.init(element));
  return charts.get(element);
}
window.addEventListener("resize", () => charts.forEach((each, element) => element.offsetParent && each.resize()));

const AXIS = { nameLocation: "middle", nameTextStyle: { color: "#57606a" }, axisLabel: { color: "#57606a" }, splitLine: { lineStyle: { color: "#eceff3" } } };

/** A table of rows of cells; a column's name that begins with ">" is of numbers. */
function table(header, rows, onRow = null) {
  const kinds = header.map((name) => (name.startsWith(">") ? "number" : null));
  const cells = (tag, row) => row.map((cell, n) => el(tag, { class: kinds[n] }, cell));
  const lines = rows.map((row, n) => el("tr", onRow ? { onclick: () => onRow(n), style: "cursor:pointer" } : {}, ...cells("td", row)));
  return el("table", {}, el("thead", {}, el("tr", {}, ...cells("th", header.map((name) => name.replace(">", ""))))), el("tbody", {}, ...lines));
}
const shareBar = (share, width = 60) => el("span", {}, el("span", { class: "share", style: `width:${Math.max(1, Math.min(1, share) * width)}px` }), ` ${percent(share)}`);

/** Tabs in order: { name, title, make(section), update(section, changed) }; made when first looked at. */
const tabs = [];
