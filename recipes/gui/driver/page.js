// What one document holds, as lines of text with ids, and how to get at what an id names.
// Evaluated once in an isolated world of each document: the page cannot see or change any of this. Ids belong to
// elements for as long as the document lives; an id that is not in the table names nothing.
(() => {
  const ids = new WeakMap();
  const table = new Map();
  const offset = {x: 0, y: 0};
  let next = 1;
  const MAX_NODES = 40000, NAME = 80;
  const ROLES = {
    A: "link", BUTTON: "button", TEXTAREA: "textbox", SELECT: "combobox", OPTION: "option", SUMMARY: "button",
    IMG: "image", H1: "heading", H2: "heading", H3: "heading", H4: "heading", LI: "item", TH: "header", TD: "cell",
    IFRAME: "frame", LABEL: "label", CANVAS: "canvas", VIDEO: "video",
  };
  const INPUTS = {
    checkbox: "checkbox", radio: "radio", button: "button", submit: "button", reset: "button", image: "button",
    range: "slider", number: "spinbutton", color: "color", file: "file", date: "date", time: "time",
    "datetime-local": "date", month: "date", week: "date", search: "searchbox",
  };
  const ACTIVE = new Set(["link", "button", "textbox", "combobox", "option", "checkbox", "radio", "slider", "switch",
    "spinbutton", "color", "file", "date", "time", "searchbox", "tab", "menuitem", "menuitemcheckbox", "treeitem",
    "menuitemradio", "canvas", "listbox"]);
  const GROUPS = new Set(["menu", "menubar", "tablist", "list", "listbox", "radiogroup", "tree", "grid", "dialog",
    "group", "toolbar", "navigation", "tabpanel", "article", "row", "rowgroup", "table", "form", "region", "main"]);
  const SHAPES = new Set(["circle", "rect", "ellipse", "polygon", "path", "line", "polyline", "text", "image"]);
  const COLORS = {
    "255,0,0": "red", "0,128,0": "green", "0,255,0": "lime", "0,0,255": "blue", "255,255,0": "yellow",
    "0,0,0": "black", "255,255,255": "white", "128,128,128": "grey", "255,165,0": "orange", "128,0,128": "purple",
    "255,192,203": "pink", "165,42,42": "brown", "0,255,255": "cyan", "255,0,255": "magenta",
    "128,128,0": "olive", "211,211,211": "lightgrey",
  };

  const clean = (text, most = NAME) => {
    const whole = String(text ?? "").toWellFormed().replace(/[\s\u0000-\u001f\u007f]+/g, " ").trim();
    return whole.length > most ? whole.slice(0, most - 1) + "…" : whole;
  };
  // What a field holds, to the letter: blanks at its ends may matter.
  const exact = (text, most) => {
    const whole = String(text ?? "").toWellFormed().replaceAll('"', "'").replaceAll("\n", "↵").replace(/[\u0000-\u001f\u007f]/g, " ");
    return '"' + (whole.length > most ? whole.slice(0, most - 1) + "…" : whole) + '"';
  };
  const quoted = (text, most) => '"' + clean(text, most).replaceAll('"', "'") + '"';
  const idOf = (element) => {
    let id = ids.get(element);
    if (id === undefined) {
      id = next++;
      ids.set(element, id);
      table.set(id, new WeakRef(element));
    }
    return id;
  };
  const color = (css) => {
    const parts = /rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)/.exec(css || "");
    if (!parts || parts[4] === "0") return "";
    const key = parts.slice(1, 4).join(",");
    return COLORS[key] || "#" + parts.slice(1, 4).map((n) => Math.round(n).toString(16).padStart(2, "0")).join("");
  };

  const roleOf = (element) => {
    const given = element.getAttribute("role");
    if (given && given !== "presentation" && given !== "none") return clean(given.split(" ")[0], 20);
    const tag = element.tagName;
    if (tag === "INPUT") return INPUTS[element.type] || "textbox";
    if (tag === "SELECT" && (element.multiple || element.size > 1)) return "listbox";
    if (element.isContentEditable && !element.parentElement?.isContentEditable) return "textbox";
    return ROLES[tag] || "";
  };
  const ownText = (element) => {
    let text = "";
    for (const node of element.childNodes) if (node.nodeType === 3) text += node.data;
    return clean(text, 400);
  };
  const nameOf = (element, role) => {
    const label = element.getAttribute("aria-label");
    if (label) return label;
    const by = element.getAttribute("aria-labelledby");
    if (by) {
      const root = element.getRootNode();
      const text = by.split(/\s+/).map((id) => root.getElementById?.(id)?.textContent || "").join(" ").trim();
      if (text) return text;
    }
    if (element.tagName === "INPUT" && ["button", "submit", "reset"].includes(element.type))
      return element.value || element.type;
    if (element.labels?.length) {
      const text = [...element.labels].map((l) => ownText(l) || l.textContent).join(" ").trim();
      if (text) return text;
    }
    if (["textbox", "searchbox", "combobox", "listbox", "spinbutton", "date", "time", "slider"].includes(role) ||
        element.tagName === "INPUT" || element.tagName === "IMG")
      return element.placeholder || element.title || element.alt || element.name || "";
    return element.innerText || element.textContent || element.title || "";
  };
  const stateOf = (element, role) => {
    let out = "";
    const tag = element.tagName;
    if (tag === "INPUT" || tag === "TEXTAREA") {
      if (role === "checkbox" || role === "radio") out += element.checked ? " checked" : "";
      else if (element.type === "password") out += element.value ? " value=" + quoted("•".repeat(element.value.length)) : "";
      else if (role !== "button" && element.value) out += " value=" + exact(element.value, 2000);
      if (element.readOnly) out += " readonly";
    } else if (tag === "SELECT") {
      const options = [...element.options].slice(0, 60);
      const chosen = options.filter((o) => o.selected).map((o) => clean(o.label));
      out += " value=" + quoted(chosen.join(", "), 400) + " options=" + quoted(options.map((o) => clean(o.label, 40)).join("|"), 1200);
    } else if (element.isContentEditable && role === "textbox") out += " value=" + quoted(element.innerText, 400);
    const checked = element.getAttribute("aria-checked");
    if (checked === "true") out += " checked";
    if (element.getAttribute("aria-selected") === "true") out += " selected";
    const expanded = element.getAttribute("aria-expanded");
    if (expanded) out += expanded === "true" ? " expanded" : " collapsed";
    const now = element.getAttribute("aria-valuenow");
    if (now) out += " value=" + quoted(now, 20);
    if (element.disabled || element.getAttribute("aria-disabled") === "true") out += " disabled";
    if (element === element.getRootNode().activeElement && tag !== "BODY") out += " focused";
    return out;
  };
  const clickable = (element, style) =>
    element.hasAttribute("onclick") || element.tabIndex > 0 || element.hasAttribute("tabindex") ||
    (style.cursor === "pointer" && getComputedStyle(element.parentElement || element).cursor !== "pointer");
  const visible = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true});

  // One walk. `every`: also plain text and shapes get ids; `all`: also what lies outside the viewport.
  const look = ({every, all, skip, most, start}) => {
    const lines = [], rects = [], frames = [];
    let nodes = 0, above = 0, below = 0, cut = 0;
    next = Math.max(next, start || 1);
    const seen = (rect) => {
      if (all) return true;
      if (rect.bottom <= 0) { above++; return false; }
      if (rect.top >= innerHeight) { below++; return false; }
      return rect.right > 0 && rect.left < innerWidth;
    };
    const say = (element, text, rect, named) => {
      if (lines.length >= most) { cut++; return; }
      if (named) {
        const id = idOf(element);
        rects.push([id, Math.round(rect.x + offset.x), Math.round(rect.y + offset.y), Math.round(rect.width), Math.round(rect.height)]);
        lines.push("[" + id + "] " + text);
      } else lines.push(text);
    };
    const place = (rect) => " at " + Math.round((rect.x + rect.width / 2 + offset.x) * 1000 / view.w) + "," +
      Math.round((rect.y + rect.height / 2 + offset.y) * 1000 / view.h) +
      " size " + Math.round(rect.width) + "x" + Math.round(rect.height);
    const view = {w: visualViewport.width, h: visualViewport.height};
    const shape = (element, rect) => {
      const style = getComputedStyle(element);
      const tone = color(style.fill) || color(style.stroke);
      const sides = element.tagName === "polygon" ? " points " + (element.points?.numberOfItems ?? 0) : "";
      const text = clean(element.textContent);
      say(element, element.tagName + (tone ? " " + tone : "") + (text ? " " + quoted(text) : "") + sides + place(rect), rect, true);
    };
    const hintOf = (element) =>
      clean((typeof element.className === "string" && element.className) || element.id || element.parentElement?.id, 40);
    const control = (element, role, style, rect) => {
      let name = clean(nameOf(element, role));
      const hint = name ? "" : hintOf(element);
      const tone = every && !role && !name ? color(style.backgroundColor) : "";
      const href = !every && !name && role === "link" ? element.getAttribute("href") : "";
      return (role || "clickable") + " " + quoted(name) + (hint && !role ? " class " + quoted(hint) : "") +
        (tone && " " + tone) + stateOf(element, role) + (href && " to " + quoted(href)) +
        (every && (role === "canvas" || tone) ? place(rect) : "");
    };
    const walk = (element) => {
      if (++nodes > MAX_NODES) return;
      if (skip && element.matches?.(skip)) return;
      const tag = element.tagName;
      if (tag === "SCRIPT" || tag === "STYLE" || tag === "NOSCRIPT" || tag === "TEMPLATE" || tag === "HEAD" || tag === "OPTION") return;
      if (!visible(element)) {
        if (getComputedStyle(element).display === "contents") for (const child of element.children) walk(child);
        return;
      }
      const rect = element.getBoundingClientRect();
      if (every && SHAPES.has(tag)) { if (seen(rect)) shape(element, rect); return; }
      if (tag === "IFRAME" || tag === "FRAME") {
        let inner = null;
        try { inner = element.contentDocument; } catch { /* another origin */ }
        if (!seen(rect)) return;
        if (inner?.body) {
          const kept = {...offset};
          offset.x += rect.x + element.clientLeft; offset.y += rect.y + element.clientTop;
          walk(inner.body);
          Object.assign(offset, kept);
        } else { frames.push(idOf(element)); say(element, "frame " + quoted(element.title || element.name), rect, true); }
        return;
      }
      const role = roleOf(element);
      const style = getComputedStyle(element);
      const boxed = rect.width > 0 && rect.height > 0;
      const active = ACTIVE.has(role) && (role !== "listbox" || tag === "SELECT");
      const bare = !active && clickable(element, style);
      // A clickable block without a role of its own is one line, unless its parts are told one by one.
      if ((active || (bare && !(every && element.childElementCount) && !GROUPS.has(role))) && boxed) {
        if (seen(rect)) say(element, control(element, role, style, rect), rect, true);
        const inner = active ? "input,select,textarea,button" : "input,select,textarea,button,a[href],[role]";
        if (tag !== "A" && tag !== "BUTTON")
          for (const child of element.querySelectorAll(inner)) walk(child);
        if (every) for (const child of element.querySelectorAll("svg")) walk(child);
        if (element.shadowRoot) for (const child of element.shadowRoot.children) walk(child);
        return;
      }
      const text = ownText(element);
      const children = element.shadowRoot ? element.shadowRoot.children : element.children;
      if (text && boxed && tag !== "LABEL" || (role === "image" && boxed)) {
        if (seen(rect)) {
          const whole = role === "image" ? nameOf(element, role) || element.getAttribute("src")?.split("/").pop() : text;
          const large = role === "heading" ? "heading " : role === "image" ? "image " : every ? "text " : "";
          say(element, large + quoted(whole, 400), rect, every);
        }
      } else if (tag === "LABEL" && text && boxed && !element.control && seen(rect)) say(element, "label " + quoted(text), rect, every);
      else if (every && boxed && !children.length && !text) {
        const tone = color(style.backgroundColor);
        if (rect.width < 4 || (!tone && style.backgroundImage === "none") || !seen(rect)) return;
        if (style.backgroundImage !== "none") say(element, "image \"\" class " + quoted(hintOf(element)), rect, true);
        else say(element, "box " + tone + place(rect), rect, true);
      }
      for (const child of children) walk(child);
      if (element.shadowRoot) for (const child of element.children) if (child.assignedSlot) walk(child);
    };
    if (document.body) walk(document.body);
    return {lines, rects, frames, above, below, cut, next, title: clean(document.title), url: location.href,
      scroll: [Math.round(scrollY), Math.round(Math.max(0, (document.documentElement?.scrollHeight ?? 0) - innerHeight))]};
  };

  const find = (id) => {
    const element = table.get(id)?.deref();
    return element?.isConnected ? element : null;
  };
  const describe = (element) => {
    const role = roleOf(element);
    return (role || element.tagName.toLowerCase()) + " " + quoted(nameOf(element, role), 40);
  };
  // Where inside the frames above an element's own document lies, in pixels of the outermost one that we may see.
  const above = (element) => {
    const sum = {x: 0, y: 0};
    let view = element.ownerDocument.defaultView;
    while (view && view !== window && view.frameElement) {
      const rect = view.frameElement.getBoundingClientRect();
      sum.x += rect.x + view.frameElement.clientLeft; sum.y += rect.y + view.frameElement.clientTop;
      view = view.parent;
    }
    return sum;
  };
  const deepest = (doc, x, y) => {
    let hit = doc.elementFromPoint(x, y);
    while (hit?.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  };
  const holds = (outer, inner) => {
    for (let node = inner; node; node = node.parentNode || node.host) if (node === outer) return true;
    return false;
  };
  // The point to click for an id: scrolled into view, and not under something else.
  const aim = (id) => {
    const element = find(id);
    if (!element) return {code: "no_such_element"};
    if (!visible(element)) return {code: "hidden", what: describe(element)};
    let rect = element.getBoundingClientRect();
    if (rect.top < 0 || rect.left < 0 || rect.bottom > innerHeight || rect.right > innerWidth ||
        !holds(element, deepest(element.ownerDocument, rect.x + rect.width / 2, rect.y + rect.height / 2))) {
      element.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
      rect = element.getBoundingClientRect();
    }
    if (element.disabled) return {code: "disabled", what: describe(element)};
    const extra = above(element);
    let cover = null;
    const boxes = [rect, ...element.getClientRects()];
    for (const box of boxes)
      for (const [u, v] of [[.5, .5], [.25, .5], [.75, .5], [.5, .25], [.5, .75], [.1, .1], [.9, .9]]) {
        const x = box.x + box.width * u, y = box.y + box.height * v;
        const hit = deepest(element.ownerDocument, x, y);
        const label = hit?.closest?.("label");
        if (hit && (holds(element, hit) || (label && label.control === element) || (every(element) && holds(hit, element))))
          return {x: x + extra.x, y: y + extra.y, what: describe(element), tag: element.tagName,
            type: element.type || "", editable: element.isContentEditable};
        cover = cover || hit;
      }
    return {code: "covered", what: describe(element), tag: element.tagName, type: element.type || "", by: cover ? describe(cover) : "the edge of the window"};
  };
  // Shapes with holes and lines are seldom hit in the middle of their box.
  const every = (element) => element instanceof SVGElement;

  const focus = (id) => {
    const element = find(id);
    if (!element) return {code: "no_such_element"};
    element.focus({preventScroll: false});
    if (element.select) try { element.select(); } catch { /* not a text field */ }
    if (element.isContentEditable) getSelection().selectAllChildren(element);
    return {focused: element.getRootNode().activeElement === element || element.isContentEditable};
  };
  const current = () => {
    let element = document.activeElement;
    while (element) {
      if (element.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
      else if (element.tagName === "IFRAME") { try { element = element.contentDocument?.activeElement; } catch { return null; } }
      else break;
    }
    return element;
  };
  const value = () => {
    const element = current();
    if (!element || element === document.body) return {none: true};
    if (element.isContentEditable) return {value: clean(element.innerText, 4000), what: describe(element)};
    return "value" in element ? {value: String(element.value).toWellFormed(), what: describe(element), type: element.type || ""} : {none: true};
  };
  // For controls whose value is not typed: lists, dates, times, colours, sliders.
  const set = (id, text) => {
    const element = find(id);
    if (!element) return {code: "no_such_element"};
    if (element.disabled) return {code: "disabled", what: describe(element)};
    if (element.tagName === "SELECT") {
      const plain = (option) => clean(option.label, 400).toLowerCase();
      const options = [...element.options];
      const whole = options.find((o) => plain(o) === clean(text, 400).toLowerCase());
      const wanted = whole || !element.multiple ? [text] : text.split(/[,\n|]/);
      const chosen = wanted.map((w) => options.find((o) => plain(o) === clean(w, 400).toLowerCase() || o.value === w.trim()));
      if (chosen.includes(undefined)) return {code: "no_such_option", what: describe(element)};
      for (const option of options) option.selected = chosen.includes(option);
    } else element.value = text;
    element.dispatchEvent(new Event("input", {bubbles: true}));
    element.dispatchEvent(new Event("change", {bubbles: true}));
    const now = element.tagName === "SELECT" ? [...element.selectedOptions].map((o) => clean(o.label)).join(", ") : element.value;
    return {value: now, what: describe(element)};
  };
  const scrollable = (id) => {
    let element = id ? find(id) : null;
    if (id && !element) return {code: "no_such_element"};
    while (element && !(element.scrollHeight > element.clientHeight + 1 && /auto|scroll|hidden/.test(getComputedStyle(element).overflowY) && element.clientHeight))
      element = element.parentElement;
    return {element};
  };
  const scroll = (id, x, y) => {
    const found = scrollable(id);
    if (found.code) return found;
    const target = found.element || document.scrollingElement || document.documentElement;
    const [left, top] = [target.scrollLeft, target.scrollTop];
    const height = found.element ? target.clientHeight : innerHeight, width = found.element ? target.clientWidth : innerWidth;
    target.scrollBy({left: x * width, top: y * height, behavior: "instant"});
    return {moved: target.scrollLeft !== left || target.scrollTop !== top, top: Math.round(target.scrollTop),
      end: Math.round(target.scrollHeight - height)};
  };
  // The inside of a frame's element, in pixels of the viewport.
  const box = (id, show) => {
    const element = find(id);
    if (!element) return {x: 0, y: 0};
    if (show) element.scrollIntoView({block: "nearest", behavior: "instant"});
    const rect = element.getBoundingClientRect();
    return {x: rect.x + element.clientLeft, y: rect.y + element.clientTop};
  };
  const tick = () => new Promise((done) => setTimeout(done, 0));
  globalThis.orchard = {tick, look, box, element: find, aim, focus, value, set, scroll, shift: (x, y) => { offset.x = x; offset.y = y; }};
})();
