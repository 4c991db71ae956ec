// A job's input subject and the keys of it: the same as internal/wire's Pattern in Go.
const token = /^[^ \t\r\n.*>\0]+$/;
const word = /^[^ \t\r\n.*>{}\0]+$/;
const name = /^\{[A-Za-z_][A-Za-z0-9_]{0,31}\}$/;
const mostBytes = 256;

export class Subject {
  constructor(text) {
    this.text = text;
    this.tokens = text.split(".").map((t) => (name.test(t) ? "*" : t));
    const last = this.tokens.length - 1;
    const good = word.test(this.tokens[0]) && !text.startsWith("$") && this.tokens.every((t, i) => t === "*" || word.test(t) || (t === ">" && i === last));
    this.stars = this.tokens.filter((t) => t === "*").length;
    this.rest = this.tokens[last] === ">";
    if (!good || this.stars + this.rest === 0)
      throw new Error(`subject "${text}": want tokens with a wildcard, such as sensors.*, plant.{site}.line.{line} or plant.>, the first one a word`);
    this.single = this.stars === 1 && this.tokens[last] === "*";
  }

  // wrongKey says why a key is none of this subject; null where it is one.
  wrongKey(key) {
    const tokens = this.single ? [key] : key.split(".");
    if (!tokens.every((t) => token.test(t))) return "its tokens must not be empty nor hold blanks, * or >, and dots only where the subject has several wildcards";
    if (this.rest ? tokens.length <= this.stars : tokens.length !== this.stars)
      return `it has ${tokens.length} tokens between dots, want ${this.rest ? `${this.stars + 1} or more` : this.stars} for ${this.text}`;
    if (!this.single && Buffer.byteLength(key) > mostBytes) return `it has ${Buffer.byteLength(key)} bytes, want at most ${mostBytes}`;
    return null;
  }

  // of is where the messages of a key are published.
  of(key) {
    const values = this.single ? [key] : key.split(".");
    return this.tokens.map((t) => (t === "*" ? values.shift() : t === ">" ? values.join(".") : t)).join(".");
  }
}
