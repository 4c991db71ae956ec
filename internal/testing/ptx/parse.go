package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a module.
func Parse(text string) (m *Module, err error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, m: &Module{kernels: map[string]*Kernel{}}}
	defer func() {
		if r := recover(); r != nil {
			s, ours := r.(syntax)
			if !ours {
				panic(r)
			}
			m, err = nil, s.err
		}
	}()
	for !p.done() {
		p.top()
	}
	if p.m.Version == "" || p.m.Target == "" {
		return nil, fmt.Errorf("ptx: no .version or no .target: this is no PTX module")
	}
	return p.m, nil
}

// syntax is what the parser panics with.
type syntax struct{ err error }

type parser struct {
	tokens  []token
	at      int
	m       *Module
	dynamic map[string]bool // names of .extern .shared arrays

	// Of the kernel that is being parsed.
	k         *Kernel
	symbols   map[string]uint64 // offsets of shared arrays
	param     string
	registers map[string]slot // declared so far: prefixes are expanded when used
	prefixes  map[string]prefix
	immediate map[constant]int
	specials  map[string]int
	labels    map[string]int
	branches  []pending
}

type slot struct {
	class class
	at    int
}

type prefix struct {
	class class
	count int
}

type pending struct {
	instruction int
	label       string
	line        int
}

const (
	maxRegisters = 1 << 16
	maxShared    = 1 << 20
)

func (p *parser) done() bool { return p.at >= len(p.tokens) }

func (p *parser) line() int {
	if len(p.tokens) == 0 {
		return 1
	}
	return p.tokens[min(p.at, len(p.tokens)-1)].line
}

func (p *parser) fail(format string, args ...any) {
	panic(syntax{fmt.Errorf("ptx: line %d: %s", p.line(), fmt.Sprintf(format, args...))})
}

func (p *parser) peek() string {
	if p.done() {
		return ""
	}
	return p.tokens[p.at].text
}

func (p *parser) next() string {
	if p.done() {
		p.fail("the text ends here")
	}
	p.at++
	return p.tokens[p.at-1].text
}

func (p *parser) accept(text string) bool {
	if p.peek() == text && !p.done() {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if got := p.peek(); got != text {
		p.fail("%q, want %q", got, text)
	}
	p.at++
}

func (p *parser) integer(most uint64) uint64 {
	s := p.next()
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v > most {
		p.at--
		p.fail("%q, want a number up to %d", s, most)
	}
	return v
}

// top reads one declaration of the module.
func (p *parser) top() {
	switch d := p.next(); d {
	case ".version":
		p.m.Version = p.next()
	case ".target":
		p.m.Target = p.next()
	case ".address_size":
		if p.integer(64) != 64 {
			p.fail("addresses of 64 bits are needed")
		}
	case ".extern":
		p.expect(".shared")
		name, size := p.array()
		if size != 0 {
			p.fail(".extern array %q with a size", name)
		}
		if p.dynamic == nil {
			p.dynamic = map[string]bool{}
		}
		p.dynamic[name] = true
		p.expect(";")
	case ".visible":
		p.expect(".entry")
		p.kernel()
	default:
		p.at--
		p.fail("unsupported declaration %q", d)
	}
}

// array reads [.align n] .b8 name[size] and returns the size, 0 where open.
func (p *parser) array() (name string, size int) {
	if p.accept(".align") {
		if a := p.integer(16); a&(a-1) != 0 {
			p.fail("alignment %d, want a power of two", a)
		}
	}
	p.expect(".b8")
	name = p.next()
	p.expect("[")
	if p.peek() != "]" {
		size = int(p.integer(maxShared))
	}
	p.expect("]")
	return name, size
}

func (p *parser) kernel() {
	k := &Kernel{Name: p.next()}
	if p.m.kernels[k.Name] != nil {
		p.fail("a second kernel %q", k.Name)
	}
	p.k, p.param = k, ""
	p.symbols, p.registers, p.prefixes = map[string]uint64{}, map[string]slot{}, map[string]prefix{}
	p.immediate, p.specials, p.labels, p.branches = map[constant]int{}, map[string]int{}, map[string]int{}, nil
	p.expect("(")
	if p.accept(".param") {
		p.param, k.ParamBytes = p.array()
	}
	p.expect(")")
	for p.peek() != "{" {
		if d := p.next(); d != ".maxntid" {
			p.at--
			p.fail("unsupported directive %q", d)
		}
		k.MaxThreads = int(p.integer(1024))
		for p.accept(",") {
			if p.integer(1024) != 1 {
				p.fail("blocks of more than one dimension are not supported")
			}
		}
	}
	p.expect("{")
	for !p.accept("}") {
		p.statement()
	}
	for _, b := range p.branches {
		target, ok := p.labels[b.label]
		if !ok {
			panic(syntax{fmt.Errorf("ptx: line %d: no label %q in %s", b.line, b.label, k.Name)})
		}
		k.code[b.instruction].target = target
	}
	if n := len(k.code); n == 0 || k.code[n-1].guard >= 0 || k.code[n-1].kind != exit && k.code[n-1].kind != branch {
		p.fail("%s runs over its end", k.Name)
	}
	p.m.kernels[k.Name] = k
	p.m.order = append(p.m.order, k.Name)
}

func (p *parser) statement() {
	switch t := p.peek(); {
	case t == ".reg":
		p.at++
		p.declare()
	case t == ".shared":
		p.at++
		name, size := p.array()
		at := (p.k.StaticShared + 15) / 16 * 16
		p.symbols[name] = uint64(at)
		if p.k.StaticShared = at + size; p.k.StaticShared > maxShared {
			p.fail("more than %d bytes of shared memory", maxShared)
		}
		p.expect(";")
	case t == ".pragma":
		p.at += 2
		p.expect(";")
	case strings.HasPrefix(t, "."):
		p.fail("unsupported directive %q", t)
	case p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == ":":
		if _, twice := p.labels[t]; twice {
			p.fail("a second label %q", t)
		}
		p.labels[t] = len(p.k.code)
		p.at += 2
	default:
		p.instruction()
	}
}

// declare reads .reg .type name<count>, or name, name;
func (p *parser) declare() {
	var c class
	switch t := p.next(); t {
	case ".pred":
		c = pred
	case ".b16", ".b32", ".f32", ".u32", ".s32":
		c = word
	case ".b64", ".u64", ".s64":
		c = long
	default:
		p.at--
		p.fail("unsupported register type %q", t)
	}
	for {
		name := p.next()
		if p.accept("<") {
			p.prefixes[name] = prefix{c, int(p.integer(maxRegisters))}
			p.expect(">")
		} else {
			p.register(name, c)
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
}

func (p *parser) register(name string, c class) slot {
	s := slot{c, p.take(c)}
	p.registers[name] = s
	return s
}

// take makes a register.
func (p *parser) take(c class) int {
	if p.k.counts[c] >= maxRegisters {
		p.fail("more than %d registers", maxRegisters)
	}
	p.k.counts[c]++
	return p.k.counts[c] - 1
}

// lookup finds a register by its name.
func (p *parser) lookup(name string) (slot, bool) {
	if s, ok := p.registers[name]; ok {
		return s, true
	}
	digits := len(name)
	for digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9' {
		digits--
	}
	f, ok := p.prefixes[name[:digits]]
	if !ok || digits == len(name) {
		return slot{}, false
	}
	if n, err := strconv.Atoi(name[digits:]); err != nil || n >= f.count {
		return slot{}, false
	}
	return p.register(name, f.class), true
}
