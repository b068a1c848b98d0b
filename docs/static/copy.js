// A button on each program and command that copies it, without prompts and without what it prints.
const PROMPTS = /^(>>> ?|\.\.\. ?|\$ )/;

function program(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  if (!/^(>>> |\$ )/.test(lines[0])) {
    return text;
  }
  const typed = lines.filter((line) => PROMPTS.test(line) || line === ">>>" || line === "...");
  return typed.map((line) => line.replace(PROMPTS, "").replace(/^(>>>|\.\.\.)$/, "")).join("\n") + "\n";
}

function isCovered(text, button) {
  const { left, top, bottom } = button.getBoundingClientRect();
  const range = document.createRange();
  range.selectNodeContents(text);
  return [...range.getClientRects()].some((it) => it.right > left && it.bottom > top && it.top < bottom);
}

document.addEventListener("DOMContentLoaded", () => {
  const kinds = ["python", "py", "default", "console", "shell"];
  const blocks = kinds.map((kind) => `.highlight-${kind} .highlight`).join(", ");
  for (const block of document.querySelectorAll(blocks)) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this program");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(program(block.querySelector("pre").innerText));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy by hand";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
    block.classList.toggle("long", isCovered(block.querySelector("pre"), button));
  }
});
