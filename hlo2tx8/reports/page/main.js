// The page: tabs are made when they are first looked at, and told what is chosen.

async function begin() {
  const waiting = document.getElementById("waiting");
  if (typeof DecompressionStream === "undefined") throw new Error("This browser cannot unpack the page: it needs DecompressionStream (browsers since 2023).");
  programs = await Promise.all([...document.querySelectorAll('script[id^="facts"]')].map((block) => unpack(block.id)));
  if (document.getElementById("against")) against = await unpack("against");
  const main = document.getElementById("main");
  const bar = document.getElementById("tabs");
  waiting.remove();
  const shown = tabs.filter((tab) => !tab.needs || tab.needs());
  for (const tab of shown) {
    tab.section = el("section", { id: tab.name });
    tab.button = el("button", { id: `tab-${tab.name}`, onclick: () => choose({ tab: tab.name }) }, tab.title);
    main.append(tab.section);
    bar.append(tab.button);
  }
  if (programs.length > 1) {
    const buttons = programs.map((of, n) => el("button", { id: `program-${n}`, onclick: () => choose({ program: n, group: OUTSIDE, record: OUTSIDE, tile: 0 }) }, `${against ? `${"AB"[n]}: ` : ""}${shorten(of.name, 30)}`));
    bar.append(el("span", { style: "margin-left:18px" }, ...buttons));
    listeners.push(() => buttons.forEach((button, n) => button.classList.toggle("on", n === chosen.program)));
  }
  const chip = el("span", { id: "chosen" });
  bar.append(chip);
  listeners.push(figures, () => {
    chip.replaceChildren(...(chosen.group === OUTSIDE ? ["no group is chosen"] : [`group: ${groupName(chosen.group)}, ${percent(program().groups[chosen.group].share)} `, el("button", { id: "clear", onclick: () => choose({ group: OUTSIDE }) }, "×")]));
  }, (changed) => {
    for (const tab of shown) {
      const isOn = tab.name === chosen.tab;
      tab.section.classList.toggle("on", isOn);
      tab.button.classList.toggle("on", isOn);
      tab.stale = new Set([...(tab.stale || ["program"]), ...changed]);
      if (!isOn) continue;
      if (!tab.section.childElementCount) tab.make(tab.section);
      tab.update(tab.section, tab.stale);
      tab.stale = new Set();
      charts.forEach((each, element) => tab.section.contains(element) && each.resize());
    }
    performance.mark("ready");
    document.body.dataset.ready = chosen.tab;
  });
  choose({ tab: shown.find((tab) => tab.needs)?.name ?? shown[0].name });
}

function figures() {
  const { report, chip, module: name } = program();
  const figure = (value, text) => el("span", {}, el("b", {}, value), ` ${text}`);
  const ratio = report.lower_bound_cycles ? [figure(`${report.roofline_ratio.toFixed(2)}×`, "its lower bound")] : [];
  document.getElementById("figures").replaceChildren(
    figure(count(report.cycles), "cycles"), figure(`${microseconds(report.cycles).toFixed(1)} µs`, `modelled at ${scaled(chip.clock_hz, "Hz")}`), ...ratio, figure(report.bound, `bounds it, then ${report.next_bound || "nothing"}`),
    figure(bytes(report["bytes accessed"]), "from and to DDR"), el("span", { class: "dim" }, `${shorten(name, 40)} on ${chip.name}${report.trip_counts === "assumed" ? "; trip counts are assumed: loops of unknown length have one turn" : report.trip_counts === "measured" ? "; trip counts of the last run" : ""}`));
}

begin().catch((error) => {
  document.getElementById("main").replaceChildren(el("p", { class: "failed" }, String(error.message || error)));
  throw error;
});
