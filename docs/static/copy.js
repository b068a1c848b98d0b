// A button on each program that copies it.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight-python .highlight, .highlight-default .highlight")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this program");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.querySelector("pre").innerText);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy by hand";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  }
});
