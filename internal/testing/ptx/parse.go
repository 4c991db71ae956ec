package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse parses a module.
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
	for !p.isDone() {
		p.topLevel()
	}
	if p.m.Version == "" || p.m.Target == "" {
		return nil, fmt.Errorf("ptx: no .version or no .target: this is no PTX module")
	}
	return p.m, nil
}

// syntax is the value that the parser panics with.
type syntax struct{ err error }

type parser struct {
	tokens   []token
	position int
	m        *Module
	dynamic  map[string]bool // names of .extern .shared arrays

	// State of the kernel being parsed.
	k         *Kernel
	symbols   map[string]uint64 // offsets of shared arrays
	param     string
	registers map[string]slot // declared so far: a register of a prefix is added at its first use
	prefixes  map[string]prefix
	immediate map[constant]int
	specials  map[string]int
	labels    map[string]int
	branches  []pending
}

type slot struct {
	class class
	index int
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

func (p *parser) isDone() bool { return p.position >= len(p.tokens) }

func (p *parser) currentLine() int {
	if len(p.tokens) == 0 {
		return 1
	}
	return p.tokens[min(p.position, len(p.tokens)-1)].line
}

func (p *parser) fail(format string, args ...any) {
	panic(syntax{fmt.Errorf("ptx: line %d: %s", p.currentLine(), fmt.Sprintf(format, args...))})
}

func (p *parser) peekToken() string {
	if p.isDone() {
		return ""
	}
	return p.tokens[p.position].text
}

func (p *parser) nextToken() string {
	if p.isDone() {
		p.fail("the text ends here")
	}
	p.position++
	return p.tokens[p.position-1].text
}

func (p *parser) acceptToken(text string) bool {
	if p.peekToken() == text && !p.isDone() {
		p.position++
		return true
	}
	return false
}

func (p *parser) expectToken(text string) {
	if got := p.peekToken(); got != text {
		p.fail("%q, want %q", got, text)
	}
	p.position++
}

func (p *parser) integer(most uint64) uint64 {
	s := p.nextToken()
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v > most {
		p.position--
		p.fail("%q, want a number up to %d", s, most)
	}
	return v
}

// topLevel parses one declaration of the module.
func (p *parser) topLevel() {
	switch d := p.nextToken(); d {
	case ".version":
		p.m.Version = p.nextToken()
	case ".target":
		p.m.Target = p.nextToken()
	case ".address_size":
		if p.integer(64) != 64 {
			p.fail("addresses of 64 bits are needed")
		}
	case ".extern":
		p.expectToken(".shared")
		name, size := p.array()
		if size != 0 {
			p.fail(".extern array %q with a size", name)
		}
		if p.dynamic == nil {
			p.dynamic = map[string]bool{}
		}
		p.dynamic[name] = true
		p.expectToken(";")
	case ".visible":
		p.expectToken(".entry")
		p.kernel()
	default:
		p.position--
		p.fail("unsupported declaration %q", d)
	}
}

// array parses [.align n] .b8 name[size] and returns the size, 0 if open.
func (p *parser) array() (name string, size int) {
	if p.acceptToken(".align") {
		if a := p.integer(16); a&(a-1) != 0 {
			p.fail("alignment %d, want a power of two", a)
		}
	}
	p.expectToken(".b8")
	name = p.nextToken()
	p.expectToken("[")
	if p.peekToken() != "]" {
		size = int(p.integer(maxShared))
	}
	p.expectToken("]")
	return name, size
}

func (p *parser) kernel() {
	k := &Kernel{Name: p.nextToken()}
	if p.m.kernels[k.Name] != nil {
		p.fail("a second kernel %q", k.Name)
	}
	p.k, p.param = k, ""
	p.symbols, p.registers, p.prefixes = map[string]uint64{}, map[string]slot{}, map[string]prefix{}
	p.immediate, p.specials, p.labels, p.branches = map[constant]int{}, map[string]int{}, map[string]int{}, nil
	p.expectToken("(")
	if p.acceptToken(".param") {
		p.param, k.ParamBytes = p.array()
	}
	p.expectToken(")")
	for p.peekToken() != "{" {
		if d := p.nextToken(); d != ".maxntid" {
			p.position--
			p.fail("unsupported directive %q", d)
		}
		k.MaxThreads = int(p.integer(1024))
		for p.acceptToken(",") {
			if p.integer(1024) != 1 {
				p.fail("blocks of more than one dimension are not supported")
			}
		}
	}
	p.expectToken("{")
	for !p.acceptToken("}") {
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
	switch t := p.peekToken(); {
	case t == ".reg":
		p.position++
		p.declareRegisters()
	case t == ".shared":
		p.position++
		name, size := p.array()
		at := (p.k.StaticShared + 15) / 16 * 16
		p.symbols[name] = uint64(at)
		if p.k.StaticShared = at + size; p.k.StaticShared > maxShared {
			p.fail("more than %d bytes of shared memory", maxShared)
		}
		p.expectToken(";")
	case t == ".pragma":
		p.position += 2
		p.expectToken(";")
	case strings.HasPrefix(t, "."):
		p.fail("unsupported directive %q", t)
	case p.position+1 < len(p.tokens) && p.tokens[p.position+1].text == ":":
		if _, twice := p.labels[t]; twice {
			p.fail("a second label %q", t)
		}
		p.labels[t] = len(p.k.code)
		p.position += 2
	default:
		p.instruction()
	}
}

// declareRegisters parses .reg .type name<count>, or name, name;
func (p *parser) declareRegisters() {
	var c class
	switch t := p.nextToken(); t {
	case ".pred":
		c = pred
	case ".b16", ".b32", ".f32", ".u32", ".s32":
		c = word
	case ".b64", ".u64", ".s64":
		c = long
	default:
		p.position--
		p.fail("unsupported register type %q", t)
	}
	for {
		name := p.nextToken()
		if p.acceptToken("<") {
			p.prefixes[name] = prefix{c, int(p.integer(maxRegisters))}
			p.expectToken(">")
		} else {
			p.register(name, c)
		}
		if !p.acceptToken(",") {
			break
		}
	}
	p.expectToken(";")
}

func (p *parser) register(name string, c class) slot {
	s := slot{c, p.newRegister(c)}
	p.registers[name] = s
	return s
}

// newRegister adds a register.
func (p *parser) newRegister(c class) int {
	if p.k.counts[c] >= maxRegisters {
		p.fail("more than %d registers", maxRegisters)
	}
	p.k.counts[c]++
	return p.k.counts[c] - 1
}

// findRegister returns a register by its name.
func (p *parser) findRegister(name string) (slot, bool) {
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
