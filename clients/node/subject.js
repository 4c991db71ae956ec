// A job's input subject and the keys of it: the same as internal/wire's Pattern in Go.
const token = /^[^ \t\r\n.*>\0]+$/;
const word = /^[^ \t\r\n.*>{}\0]+$/;
const name = /^\{[A-Za-z_][A-Za-z0-9_]{0,31}\}$/;
const mostBytes = 256;

export class Subject {
  constructor(text, alone = true) {
    this.text = text;
    const several = text.split(" ").filter((t) => t !== "");
    if (alone && several.length > 1) {
      // Several subjects: a key is a whole subject, of which one takes it.
      this.parts = several.map((t) => new Subject(t, false));
      return;
    }
    this.tokens = text.split(".").map((t) => (name.test(t) ? "*" : t));
    const last = this.tokens.length - 1;
    const good = word.test(this.tokens[0]) && !text.startsWith("$") && this.tokens.every((t, i) => t === "*" || word.test(t) || (t === ">" && i === last));
    this.stars = this.tokens.filter((t) => t === "*").length;
    this.rest = this.tokens[last] === ">";
    if (!good || (alone && this.stars + this.rest === 0))
      throw new Error(`subject "${text}": want tokens with a wildcard, such as sensors.*, plant.{site}.line.{line} or plant.>, the first one a word`);
    this.single = this.stars === 1 && this.tokens[last] === "*";
  }

  // wrongKey says why a key is none of this subject; null where it is one.
  wrongKey(key) {
    if (this.parts && Buffer.byteLength(key) > mostBytes) return `it has ${Buffer.byteLength(key)} bytes, want at most ${mostBytes}`;
    if (this.parts) return this.parts.some((p) => p.takes(key)) ? null : `with several input subjects it is a whole subject, and none of ${this.text} takes it`;
    const tokens = this.single ? [key] : key.split(".");
    if (!tokens.every((t) => token.test(t))) return "its tokens must not be empty nor hold blanks, * or >, and dots only where the subject has several wildcards";
    if (this.rest ? tokens.length <= this.stars : tokens.length !== this.stars)
      return `it has ${tokens.length} tokens between dots, want ${this.rest ? `${this.stars + 1} or more` : this.stars} for ${this.text}`;
    if (!this.single && Buffer.byteLength(key) > mostBytes) return `it has ${Buffer.byteLength(key)} bytes, want at most ${mostBytes}`;
    return null;
  }

  // of is where the messages of a key are published.
  of(key) {
    if (this.parts) return key;
    const values = this.single ? [key] : key.split(".");
    return this.tokens.map((t) => (t === "*" ? values.shift() : t === ">" ? values.join(".") : t)).join(".");
  }

  // takes reports whether a subject is one of this one's.
  takes(subject) {
    const tokens = subject.split(".");
    if (!tokens.every((t) => token.test(t))) return false;
    if (this.rest ? tokens.length < this.tokens.length : tokens.length !== this.tokens.length) return false;
    return this.tokens.every((t, i) => t === "*" || t === ">" || t === tokens[i]);
  }
}
