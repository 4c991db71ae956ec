package wire

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxKey is how many bytes a key of several tokens may have, dots included:
	// as many as the name of a stream in an archive.
	MaxKey = 256
	// maxWildcards is far more than levels of a plant.
	maxWildcards = 16
	maxName      = 32
)

// Pattern is a job's input subject: where producers publish, and how a subject becomes
// the key of a stream. The zero Pattern is invalid; ParsePattern makes patterns.
//
// The key is the text matched by the wildcards, joined by dots. The server hashes the
// tokens matched by "*", concatenated, for the partition; if the pattern ends in ">",
// it hashes the whole subject. A job may have several subjects. Then key and hash input
// are the whole subject.
type Pattern struct {
	filter string    // in NATS notation: names are "*"; several subjects are separated by a blank
	tokens []string  // of filter; of several, ">"
	names  []string  // names of the wildcards "*", in order; "" for an unnamed wildcard
	rest   bool      // the pattern ends in ">"
	parts  []Pattern // several subjects, in the order of their filters; nil = one
}

// ParsePattern reads an input subject: tokens, some of them wildcards: "*", "{name}",
// or ">" at the end. Several subjects are separated by a blank, and need no wildcard.
func ParsePattern(text string) (Pattern, error) {
	if several := slices.DeleteFunc(strings.Split(text, " "), func(s string) bool { return s == "" }); len(several) > 1 {
		return parseSeveral(several)
	}
	return parseOne(text, true)
}

// parseOne reads one subject. alone: its wildcards are the key.
func parseOne(text string, alone bool) (Pattern, error) {
	bad := func(format string, args ...any) (Pattern, error) {
		return Pattern{}, fmt.Errorf("input subject %q: "+format, append([]any{text}, args...)...)
	}
	var p Pattern
	p.tokens = strings.Split(text, ".")
	last := len(p.tokens) - 1
	for i, tok := range p.tokens {
		name, err := nameIn(tok)
		switch {
		case tok == "":
			return bad("it has an empty token: want tokens with one dot between, like %q", DefaultInputSubject)
		case err != nil:
			return bad("%w", err)
		case tok == ">" && i < last:
			return bad("> stands for all tokens that follow, so it must be the last one")
		case tok == ">":
			p.rest = true
		case tok == "*" || name != "":
			if name != "" && strings.Contains("."+strings.Join(p.names, ".")+".", "."+name+".") {
				return bad("two wildcards have the name %q: want a name of its own for each", name)
			}
			p.names = append(p.names, name)
			p.tokens[i] = "*"
		case strings.ContainsAny(tok, "*>{}"):
			return bad("token %q: a wildcard is a whole token, *, {name} or >, and other tokens hold none of * > { }", tok)
		case CheckToken(tok) != nil:
			return bad("token %q holds a blank or a control character, which NATS does not allow", tok)
		}
	}
	p.filter = strings.Join(p.tokens, ".")
	switch {
	case strings.HasPrefix(text, "$"):
		return bad("subjects that begin with $ belong to the server")
	case alone && len(p.names) == 0 && !p.rest:
		return bad("want a wildcard, like %q: what it stands for is the key of a stream", DefaultInputSubject)
	case p.tokens[0] == "*" || p.tokens[0] == ">":
		return bad("its first token is a wildcard, so it would also take the subjects of the server and of the job itself: want a word before it, like %q", DefaultInputSubject)
	case len(p.names) > maxWildcards:
		return bad("it has %d wildcards, want at most %d; a > at the end stands for any number of tokens", len(p.names), maxWildcards)
	case len(p.filter) > MaxKey:
		return bad("it has %d bytes, want at most %d", len(p.filter), MaxKey)
	}
	return p, nil
}

// nameIn is the name in a token {name}; "" where the token is none.
func nameIn(token string) (string, error) {
	if !strings.HasPrefix(token, "{") || !strings.HasSuffix(token, "}") {
		return "", nil
	}
	name := token[1 : len(token)-1]
	good := name != "" && len(name) <= maxName
	for i, c := range name {
		good = good && (c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9')
	}
	if !good {
		return "", fmt.Errorf("the name in %q must have 1 to %d letters, digits and _, and not begin with a digit", token, maxName)
	}
	return name, nil
}

// Filter returns the pattern in NATS notation, several subjects separated by a blank.
func (p Pattern) Filter() string { return p.filter }

// Names returns the names of its wildcards "*", in order; "" for an unnamed wildcard.
// For several subjects, it returns all names, each once.
func (p Pattern) Names() []string {
	if p.parts != nil {
		return p.namesOfAll()
	}
	return p.names
}

// isSingle reports whether a key is one token at the end of the subject, as in jobs of
// programs without patterns. Their subjects stay unchanged.
func (p Pattern) isSingle() bool {
	return len(p.names) == 1 && !p.rest && p.tokens[len(p.tokens)-1] == "*"
}

// IsSeveral reports whether keys may have several tokens.
func (p Pattern) IsSeveral() bool { return len(p.names) > 1 || p.rest }

// Takes reports whether the pattern matches subjects of the job itself, which have
// three tokens or more.
func (p Pattern) Takes(job string) bool {
	for _, part := range p.parts {
		if part.Takes(job) {
			return true
		}
	}
	return p.tokens[0] == job && (p.rest || len(p.tokens) > 2)
}

// Destination returns the server's subject mapping of a message's subject.
func (p Pattern) Destination(job string, partitions int) string {
	hashed, key := strings.Builder{}, strings.Builder{}
	for i := range p.names {
		fmt.Fprintf(&hashed, ",%d", i+1)
		fmt.Fprintf(&key, ".{{wildcard(%d)}}", i+1)
	}
	if p.rest {
		hashed.Reset() // the whole subject, for > has no number
		key.WriteString(".>")
	}
	return fmt.Sprintf("%s.in.{{partition(%d%s)}}%s", job, partitions, hashed.String(), key.String())
}

// InputFilter takes a partition's messages of the input.
func (p Pattern) InputFilter(job string, part int) string {
	if p.isSingle() {
		return fmt.Sprintf("%s.in.%d.*", job, part)
	}
	return fmt.Sprintf("%s.in.%d.>", job, part)
}

// MaxKey is how many bytes a key may have, 0 = as many as the server takes.
func (p Pattern) MaxKey() int {
	if p.isSingle() {
		return 0
	}
	return MaxKey
}

// CheckKey refuses a key that this pattern cannot produce.
func (p Pattern) CheckKey(key string) error {
	if p.isSingle() {
		return CheckToken(key)
	}
	n := 0
	for tok := range strings.SplitSeq(key, ".") {
		if n++; CheckToken(tok) != nil {
			return fmt.Errorf("%.300q cannot be a key of %s: its tokens must not be empty nor hold blanks, * or >", key, p.filter)
		}
	}
	switch want := len(p.names); {
	case p.rest && n <= want:
		return fmt.Errorf("%.300q cannot be a key of %s: it has %d tokens between dots, want %d or more", key, p.filter, n, want+1)
	case !p.rest && n != want:
		return fmt.Errorf("%.300q cannot be a key of %s: it has %d tokens between dots, want %d", key, p.filter, n, want)
	case len(key) > MaxKey:
		return fmt.Errorf("%.300q cannot be a key of %s: it has %d bytes, want at most %d", key, p.filter, len(key), MaxKey)
	case p.parts != nil:
		return p.checkSeveral(key)
	}
	return nil
}

// Subject returns the subject for the messages of a key that CheckKey accepts.
func (p Pattern) Subject(key string) string {
	if p.isSingle() {
		return p.filter[:len(p.filter)-1] + key
	}
	b := strings.Builder{}
	for i, tok := range p.tokens {
		if i > 0 {
			b.WriteByte('.')
		}
		switch tok {
		case ">":
			b.WriteString(key)
		case "*":
			var value string
			value, key, _ = strings.Cut(key, ".")
			b.WriteString(value)
		default:
			b.WriteString(tok)
		}
	}
	return b.String()
}

// Key returns the key of a subject that producers publish to; ok is false if the
// pattern does not match the subject.
func (p Pattern) Key(subject string) (key string, ok bool) {
	if p.parts != nil {
		return subject, p.partOf(subject) != nil || p.isEvent(subject)
	}
	parts := strings.Split(subject, ".")
	var values []string
	for i, tok := range p.tokens {
		switch {
		case i >= len(parts):
			return "", false
		case tok == ">":
			return strings.Join(append(values, parts[i:]...), "."), true
		case tok == "*":
			values = append(values, parts[i])
		case tok != parts[i]:
			return "", false
		}
	}
	return strings.Join(values, "."), len(parts) == len(p.tokens)
}

// Values returns a key's values of Names, or nil for a key of another pattern. For
// several subjects, the values of other subjects' names are empty.
func (p Pattern) Values(key string) []string {
	if p.CheckKey(key) != nil {
		return nil
	}
	if p.parts != nil {
		return p.valuesOfAll(key)
	}
	if p.isSingle() {
		return []string{key}
	}
	return strings.Split(key, ".")[:len(p.names)]
}

// PartitionOf returns the server's partition of a key.
func (p Pattern) PartitionOf(key string, partitions int) int {
	hashed := key
	switch {
	case p.rest:
		hashed = p.Subject(key)
	case p.IsSeveral():
		hashed = strings.ReplaceAll(key, ".", "")
	}
	return PartitionOf(hashed, partitions)
}

// PartitionOf returns the partition of the text that the server hashes, which is the
// key if the key is one token.
func PartitionOf(hashed string, partitions int) int {
	h := fnv.New32a()
	h.Write([]byte(hashed))
	return int(h.Sum32() % uint32(partitions))
}

// IdlePrefix begins each token of the keys of end events. An event under any other key
// is refused, so that a producer limited to its own keys cannot end the sequences of
// other producers.
const IdlePrefix = "eusn-idle-"

// IsIdleKey reports whether an end event may have a key.
func IsIdleKey(key string) bool {
	for tok := range strings.SplitSeq(key, ".") {
		if !strings.HasPrefix(tok, IdlePrefix) {
			return false
		}
	}
	return true
}

// IdleKey returns a key of a partition that no producer uses, so that an end event
// reaches the partition on none of its streams' subjects: producers look for their last
// number there. The number in its first token (of several subjects: second token)
// selects the partition. The other tokens are constant: the last bit of FNV-1a is the
// parity of the last bits of all bytes, so two equal tokens would reach only half of
// the partitions.
func (p Pattern) IdleKey(part, partitions int) string {
	tokens, first := len(p.names), ""
	if p.rest {
		tokens++
	}
	if p.parts != nil {
		first = p.eventSubject() + "."
	}
	others := strings.Repeat("."+IdlePrefix+"0", max(1, tokens)-1)
	for i := 0; ; i++ {
		key := first + IdlePrefix + strconv.Itoa(i) + others
		if p.PartitionOf(key, partitions) == part {
			return key
		}
	}
}

// IdleKey returns the key for patterns with keys of one token.
func IdleKey(part, partitions int) string { return Pattern{}.IdleKey(part, partitions) }

// KeyOf returns the key of an input message from its stored subject,
// <job>.in.<partition>.<key>.
func KeyOf(stored string) string {
	for range 3 {
		_, stored, _ = strings.Cut(stored, ".")
	}
	return stored
}
