// The HLO graph: groups and what stands outside of them, or the instructions of the chosen group, coloured by fusion.

const BOX = { width: 150, height: 30, across: 18, down: 34 };
const MOST_NODES = 1200;

/** Rows from top to bottom, each node below all that it reads; in a row near what it reads and what reads it. */
function layered(numbers, edges) {
  const place = new Map(numbers.map((n, index) => [n, index]));
  const reads = numbers.map(() => []);
  const readers = numbers.map(() => []);
  for (const [source, target] of edges) {
    reads[place.get(target)].push(place.get(source));
    readers[place.get(source)].push(place.get(target));
  }
  const missing = reads.map((list) => list.length);
  const depth = numbers.map(() => 0);
  const ready = missing.flatMap((left, n) => (left ? [] : [n]));
  for (let at = 0; at < ready.length; at++)
    for (const reader of readers[ready[at]]) {
      depth[reader] = Math.max(depth[reader], depth[ready[at]] + 1);
      if (--missing[reader] === 0) ready.push(reader);
    }
  reads.forEach((list, n) => { if (!list.length && readers[n].length) depth[n] = Math.max(0, Math.min(...readers[n].map((r) => depth[r])) - 1); });
  const rows = [];
  depth.forEach((d, n) => (rows[d] ??= []).push(n));
  const x = numbers.map(() => 0);
  const spread = (row) => row.forEach((n, at) => { x[n] = at - (row.length - 1) / 2; });
  rows.forEach(spread);
  for (let sweep = 0; sweep < 6; sweep++) {
    const near = sweep % 2 ? readers : reads;
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wanted = new Map(row.map((n) => [n, near[n].length ? near[n].reduce((total, other) => total + x[other], 0) / near[n].length : x[n]]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b) || a - b);
      let at = -Infinity;
      row.forEach((n) => { at = x[n] = Math.max(wanted.get(n), at + 1); });
      const shift = row.reduce((total, n) => total + x[n] - wanted.get(n), 0) / row.length;
      row.forEach((n) => { x[n] -= shift; });
    }
  }
  return new Map(numbers.map((n, index) => [n, [x[index] * (BOX.width + BOX.across), depth[index] * (BOX.height + BOX.down)]]));
}

/** Boxes and lines: of a group its instructions, else groups and the instructions outside. */
function diagramOf(of, number) {
  const { nodes, edges } = of.graph;
  const kernel = number === OUTSIDE ? OUTSIDE : of.groups[number].kernel;
  const ofKernel = new Map(of.groups.map((group, n) => [group.kernel, n]).filter(([k]) => k >= 0));
  const boxes = new Map();
  const time = new Map(of.instructions.map((row) => [`${row.source} ${row.name}`, row]));
  const inner = (n) => {
    const origin = of.origins[nodes[n][4]];
    const row = time.get(`${origin.source} ${origin.hlo || "(none)"}`);
    return { title: nodes[n][0], below: nodes[n][1], color: nodes[n][3], group: OUTSIDE, origin, share: null, about: [["type", nodes[n][1]], ["fusion", nodes[n][3] === OUTSIDE ? "" : of.graph.fusions[nodes[n][3]]], ["HLO", origin.hlo], ["source", origin.source], row ? ["time of all instructions of that line and name", `${count(row.cycles)} cycles`] : null] };
  };
  const outer = (k) => {
    const group = ofKernel.has(k) ? of.groups[ofKernel.get(k)] : null;
    return { title: group ? group.name : `kernel ${k}`, below: group ? `${count(group.cycles)} cycles, ${group.bound}` : "no time known", color: 0, group: group ? ofKernel.get(k) : OUTSIDE, share: group ? group.share : null, about: group ? [["time", `${count(group.cycles)} cycles, ${percent(group.share)}`], ["bound", group.bound]] : [] };
  };
  const keyOf = (n) => (nodes[n][2] !== OUTSIDE && nodes[n][2] !== kernel ? `k${nodes[n][2]}` : `n${n}`);
  const lines = new Map();
  const add = (n) => { const key = keyOf(n); if (!boxes.has(key)) boxes.set(key, key[0] === "k" ? outer(nodes[n][2]) : inner(n)); return key; };
  for (const [source, target, size] of edges) {
    const isNear = kernel === OUTSIDE ? true : nodes[source][2] === kernel || nodes[target][2] === kernel;
    if (!isNear) continue;
    const [from, to] = [add(source), add(target)];
    if (from === to) continue;
    const line = lines.get(`${from} ${to}`) || { from, to, size: 0, tensors: new Set() };
    if (!line.tensors.has(source)) line.size += size;
    line.tensors.add(source);
    lines.set(`${from} ${to}`, line);
  }
  nodes.forEach((node, n) => (kernel === OUTSIDE ? node[2] !== OUTSIDE || boxes.size === 0 : node[2] === kernel) && add(n));
  return { boxes, lines: [...lines.values()] };
}

/** Of a diagram with too many boxes those within a few lines of one of them. */
function near(diagram, start) {
  const found = new Set([start]);
  for (let round = 0; round < 40 && found.size < 160; round++)
    for (const { from, to } of diagram.lines) {
      if (found.size >= 160) break;
      if (found.has(from)) found.add(to);
      else if (found.has(to)) found.add(from);
    }
  return { boxes: new Map([...diagram.boxes].filter(([key]) => found.has(key))), lines: diagram.lines.filter((line) => found.has(line.from) && found.has(line.to)) };
}

/** Wheel and drag move the view box of a drawing, which begins with all of it. */
function pannable(drawing, box) {
  let view = { ...box };
  const show = () => drawing.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
  drawing.onwheel = (event) => {
    event.preventDefault();
    const { left, top, width, height } = drawing.getBoundingClientRect();
    const scale = 1.0015 ** event.deltaY;
    const [px, py] = [(event.clientX - left) / width, (event.clientY - top) / height];
    view = { x: view.x + view.width * px * (1 - scale), y: view.y + view.height * py * (1 - scale), width: view.width * scale, height: view.height * scale };
    show();
  };
  drawing.onpointerdown = (event) => { drawing.from = [event.clientX, event.clientY, view.x, view.y]; };
  drawing.onpointerup = drawing.onpointerleave = () => { drawing.from = null; };
  drawing.onpointermove = (event) => {
    if (!drawing.from) return;
    const { width, height } = drawing.getBoundingClientRect();
    const scale = Math.max(view.width / width, view.height / height);
    [view.x, view.y] = [drawing.from[2] - (event.clientX - drawing.from[0]) * scale, drawing.from[3] - (event.clientY - drawing.from[1]) * scale];
    show();
  };
  show();
}

function drawDiagram(drawing, diagram) {
  const keys = [...diagram.boxes.keys()];
  const places = layered(keys, diagram.lines.map((line) => [line.from, line.to]));
  const palette = (n) => (n === OUTSIDE ? "#f4f6f9" : `hsl(${(n * 67 + 210) % 360} 62% 90%)`);
  const parts = diagram.lines.map((line) => {
    const [[x0, y0], [x1, y1]] = [places.get(line.from), places.get(line.to)];
    const [ax, ay, bx, by] = [x0 + BOX.width / 2, y0 + BOX.height, x1 + BOX.width / 2, y1];
    const middle = (ay + by) / 2;
    return svg("path", { d: `M${ax} ${ay}C${ax} ${middle} ${bx} ${middle} ${bx} ${by}`, fill: "none", stroke: "#9aa8bd", "stroke-width": Math.min(4, 0.8 + Math.log10(1 + line.size / 1e5)) }, svg("title", {}, line.size ? bytes(line.size) : "control"));
  });
  for (const [key, box] of diagram.boxes) {
    const [x, y] = places.get(key);
    const isGroup = key[0] === "k";
    const made = svg("g", { transform: `translate(${x} ${y})`, style: "cursor:pointer" },
      svg("title", {}, [box.title, ...box.about.filter(Boolean).map(([k, v]) => `${k}: ${v}`)].join("\n")),
      svg("rect", { width: BOX.width, height: BOX.height, rx: 5, fill: isGroup ? "#e6eefc" : palette(box.color), stroke: isGroup ? "#2f62c9" : "#b7c0cd", "stroke-width": isGroup ? 1.5 : 1 }),
      box.share === null ? "" : svg("rect", { y: BOX.height - 3, width: Math.max(1, BOX.width * box.share), height: 3, fill: "#d1541f" }),
      svg("text", { x: 7, y: 13 }, shorten(box.title, 23)), svg("text", { x: 7, y: 25, class: "small" }, shorten(box.below, 27)));
    made.addEventListener("click", () => (isGroup ? box.group !== OUTSIDE && choose({ group: box.group }) : box.origin.source && showSource(box.origin.source, box.origin.hlo)));
    parts.push(made);
  }
  drawing.replaceChildren(...parts);
  const all = [...places.values()];
  const [left, top] = [Math.min(...all.map((p) => p[0])) - 20, Math.min(...all.map((p) => p[1])) - 20];
  const [right, bottom] = [Math.max(...all.map((p) => p[0])) + BOX.width + 20, Math.max(...all.map((p) => p[1])) + BOX.height + 20];
  const frame = drawing.getBoundingClientRect();
  const width = Math.min(Math.max(right - left, 0.85 * frame.width), 1.6 * frame.width); // legible first; the rest is a drag away
  const height = (width * frame.height) / Math.max(frame.width, 1);
  pannable(drawing, { x: (left + right) / 2 - width / 2, y: bottom - top < height ? (top + bottom) / 2 - height / 2 : top, width, height });
}

tabs.push({
  name: "graph", title: "Graph",
  make(section) {
    section.append(el("div", { class: "bar" }, el("button", { id: "whole-graph", onclick: () => choose({ group: OUTSIDE }) }, "all groups"), el("span", { id: "graph-title" }), el("span", { class: "dim" }, "click a group to open it, an instruction to see its source; wheel: zoom, drag: move; a bar below a group is its share of the time")), svg("svg", { class: "drawing", id: "drawing" }));
  },
  update(section, changed) {
    if (!["program", "group", "tab"].some((name) => changed.has(name))) return;
    const of = program();
    const title = section.querySelector("#graph-title");
    const isKnown = chosen.group === OUTSIDE || of.groups[chosen.group].kernel >= 0;
    const number = isKnown ? chosen.group : OUTSIDE;
    let diagram = diagramOf(of, number);
    const total = diagram.boxes.size;
    if (!total) {
      title.textContent = "The graph is not known.";
      return;
    }
    if (total > MOST_NODES) diagram = near(diagram, diagram.boxes.keys().next().value);
    const cut = diagram.boxes.size < total ? `${count(diagram.boxes.size)} of ${count(total)} boxes, the first and those near it` : `${count(total)} boxes`;
    title.textContent = `${number === OUTSIDE ? "all groups" : `instructions of ${groupName(number)}, coloured by fusion, and groups beside it`}: ${cut}${isKnown ? "" : "; instructions of the chosen group are not known"}`;
    drawDiagram(section.querySelector("#drawing"), diagram);
  },
});
