/* Opens the page: the view of what lies in #data. */
document.getElementById("attention").view = showAttention(document.getElementById("attention"), JSON.parse(document.getElementById("data").textContent));
