// All groups in a table that sorts and filters, of which only the rows in sight are made; beside it the chosen one.

const ROW = 24;
const sum = (values) => Object.values(values).reduce((a, b) => a + b, 0);
const COLUMNS = [
  { title: "#", width: 48, number: true, value: (g, n) => n, text: (g, n) => String(n) },
  { title: "group", width: 184, value: (g) => g.name, text: (g) => g.name },
  { title: "cycles", width: 80, number: true, value: (g) => g.cycles, text: (g) => count(g.cycles) },
  { title: "share", width: 116, value: (g) => g.share, text: (g) => shareBar(g.share) },
  { title: "bound", width: 66, value: (g) => g.bound, text: (g) => g.bound },
  { title: "next", width: 62, value: (g) => g.next_bound, text: (g) => g.next_bound },
  { title: "least/time", width: 82, number: true, value: (g) => g.roofline, text: (g) => percent(g.roofline), about: "what the group's own bytes and operations take at the peaks, divided by its time" },
  { title: "read", width: 76, number: true, value: (g) => sum(g.read), text: (g) => bytes(sum(g.read)), about: "bytes from DDR" },
  { title: "rereads", width: 76, number: true, value: (g) => g.rereads, text: (g) => bytes(g.rereads), about: "bytes read of an array beyond its size" },
  { title: "written", width: 76, number: true, value: (g) => sum(g.written), text: (g) => bytes(sum(g.written)), about: "bytes to DDR" },
  { title: "kept in SPM", width: 94, number: true, value: (g) => g.kept ?? -1, text: (g) => (g.kept === null ? "not known" : bytes(g.kept)), about: "bytes that go from one of its fusions to another and are not written to DDR" },
  { title: "operations", width: 92, number: true, value: (g) => g.flops, text: (g) => scaled(g.flops, "") },
  { title: "source", width: 220, value: (g) => g.source, text: (g) => g.source },
];

tabs.push({
  name: "groups", title: "Groups", order: [], sort: 0, descends: false,
  make(section) {
    const again = () => this.list(section);
    const header = el("tr", {}, ...COLUMNS.map((column, n) => el("th", { "data-sort": n, class: column.number ? "number" : null, title: column.about, onclick: () => { this.descends = this.sort === n ? !this.descends : Boolean(column.number) && n > 0; this.sort = n; again(); } }, column.title)));
    section.append(
      el("div", { class: "bar" }, el("input", { type: "search", id: "filter", placeholder: "filter by name or source", size: 34, oninput: again }), el("select", { id: "bound-filter", onchange: again }), el("span", { class: "dim", id: "how-many" })),
      el("div", { class: "split", style: "grid-template-columns:minmax(0,1fr) 310px" },
        el("div", { class: "rows", id: "rows", style: "height:calc(100vh - 150px);min-height:300px" }, el("table", { style: `width:${COLUMNS.reduce((w, c) => w + c.width, 0)}px` }, el("colgroup", {}, ...COLUMNS.map((c) => el("col", { style: `width:${c.width}px` }))), el("thead", {}, header), el("tbody", {}))),
        el("div", { class: "card", id: "about-group", style: "overflow:auto;max-height:calc(100vh - 150px)" })));
    section.querySelector("#rows").addEventListener("scroll", () => this.show(section), { passive: true });
    window.addEventListener("resize", () => chosen.tab === this.name && this.show(section));
  },
  /** Which groups are shown, in which order. */
  list(section) {
    const of = program();
    const words = section.querySelector("#filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const bound = section.querySelector("#bound-filter").value;
    const { value } = COLUMNS[this.sort];
    const keys = of.groups.map(value);
    this.order = [...of.groups.keys()].filter((n) => (!bound || of.groups[n].bound === bound) && words.every((word) => `${of.groups[n].name} ${of.groups[n].source}`.toLowerCase().includes(word)));
    this.order.sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b) * (this.descends ? -1 : 1));
    const cycles = this.order.reduce((total, n) => total + of.groups[n].cycles, 0);
    section.querySelector("#how-many").textContent = `${count(this.order.length)} of ${count(of.groups.length)} groups, ${count(cycles)} cycles, ${percent(cycles / of.report.cycles)} of the time`;
    section.querySelectorAll("th").forEach((th, n) => { th.textContent = COLUMNS[n].title + (n === this.sort ? (this.descends ? " ▾" : " ▴") : ""); });
    section.querySelector("#rows").scrollTop = 0;
    this.show(section);
  },
  /** The rows in sight. */
  show(section) {
    const of = program();
    const view = section.querySelector("#rows");
    const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 10);
    const last = Math.min(this.order.length, first + Math.ceil(view.clientHeight / ROW) + 20);
    const space = (rows) => el("tr", {}, el("td", { colspan: COLUMNS.length, style: `height:${rows * ROW}px;padding:0;border:0` }));
    const rows = this.order.slice(first, last).map((n) => el("tr", { "data-number": n, class: n === chosen.group ? "on" : null, onclick: () => choose({ group: n }), ondblclick: () => choose({ group: n, tab: "timeline" }) },
      ...COLUMNS.map((column) => el("td", { class: column.number ? "number" : null, title: column.width > 180 ? column.text(of.groups[n], n) : null }, column.text(of.groups[n], n)))));
    view.querySelector("tbody").replaceChildren(space(first), ...rows, space(this.order.length - last));
  },
  about(section) {
    const of = program();
    const card = section.querySelector("#about-group");
    if (chosen.group === OUTSIDE) return card.replaceChildren(el("p", { class: "dim" }, "Choose a group."));
    const group = of.groups[chosen.group];
    const nodes = of.graph.nodes.filter((node) => group.kernel >= 0 && node[2] === group.kernel);
    const fusions = [...new Set(nodes.map((node) => node[3]))].filter((n) => n !== OUTSIDE).map((n) => [of.graph.fusions[n], count(nodes.filter((node) => node[3] === n).length)]);
    const arrays = [...new Set([...Object.keys(group.read), ...Object.keys(group.written)])].map((kind) => [kind, bytes(group.read[kind] || 0), bytes(group.written[kind] || 0)]);
    const engines = ENGINE_ORDER.filter((name) => group.busy_cycles[name]).map((name) => [name, count(group.busy_cycles[name]), shareBar(group.busy_cycles[name] / group.cycles)]);
    const lines = group.records.reduce((total, [first, end]) => total + end - first, 0);
    const link = (text, tab) => el("button", { onclick: () => choose({ tab }) }, text);
    card.replaceChildren(...[
      el("h2", { style: "overflow-wrap:anywhere" }, group.name), el("p", { class: "note" }, `${count(group.cycles)} cycles, ${microseconds(group.cycles).toFixed(1)} µs, ${count(lines)} instructions of the program`),
      el("div", { class: "bar", style: "margin-top:8px" }, link("timeline", "timeline"), link("graph", "graph"), link("IR", "levels"), el("button", { onclick: () => showSource(group.source, "") }, "source")),
      el("h2", {}, "Engines ", el("small", {}, "busy, means over tiles")), table(["engine", ">cycles", "of its time"], engines),
      el("h2", { style: "margin-top:12px" }, "DDR"), arrays.length ? table(["arrays", ">read", ">written"], arrays) : el("p", { class: "dim" }, "Nothing."),
      group.unnamed ? el("p", { class: "note" }, `${bytes(group.unnamed)} are of arrays that a register names: counted as scratch, their rereads are not known.`) : null,
      el("h2", { style: "margin-top:12px" }, "Fusions"), group.kernel < 0 ? el("p", { class: "dim" }, "Not known: a copy, an update, or launches that cannot be told apart.") : table(["fusion", ">instructions"], fusions),
    ].filter(Boolean));
  },
  update(section, changed) {
    if (changed.has("program") || !this.listed) {
      const bounds = [...new Set(program().groups.map((group) => group.bound))].sort();
      section.querySelector("#bound-filter").replaceChildren(el("option", { value: "" }, "any bound"), ...bounds.map((bound) => el("option", { value: bound }, `bound by ${bound || "nothing"}`)));
      this.listed = true;
      this.list(section);
    } else this.show(section);
    this.about(section);
  },
});
