package ptx

import (
	"math"
	"strconv"
	"strings"
)

// operand is one operand of an instruction.
type operand struct {
	kind   operandKind
	reg    slot
	value  uint64 // immediate, offset of a symbol, or offset in brackets
	name   string // special register or label
	base   bool   // address: reg is the base
	param  bool   // address or symbol: of the parameter
	vector []operand
}

type operandKind uint8

const (
	isRegister operandKind = iota
	isImmediate
	isSpecial
	isAddress
	isVector
	isName
)

// dynamicName marks the address of dynamic shared memory, which depends on the kernel's
// static arrays that follow in the text.
const dynamicName = "dynamic shared memory"

var specialNames = []string{
	"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
	"%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid",
}

// instruction reads one instruction up to its semicolon.
func (p *parser) instruction() {
	in := instruction{guard: -1, line: p.currentLine()}
	first := p.position
	if p.acceptToken("@") {
		in.not = p.acceptToken("!")
		name := p.nextToken()
		s, ok := p.findRegister(name)
		if !ok || s.class != pred {
			p.position--
			p.fail("%q is no predicate", name)
		}
		in.guard = s.index
	}
	op := p.nextToken()
	var operands []operand
	for p.peekToken() != ";" {
		if len(operands) > 0 {
			p.expectToken(",")
		}
		operands = append(operands, p.operand())
	}
	end := p.position
	p.compile(&in, op, operands)
	p.expectToken(";")
	var text strings.Builder
	for i, t := range p.tokens[first:end] {
		if i > 0 && strings.IndexByte(",;]})>", t.text[0]) < 0 && strings.IndexByte("[{(@!-", p.tokens[first+i-1].text[0]) < 0 {
			text.WriteByte(' ')
		}
		text.WriteString(t.text)
	}
	in.text = text.String()
	p.k.code = append(p.k.code, in)
}

func (p *parser) operand() operand {
	switch t := p.nextToken(); {
	case t == "[":
		return p.address()
	case t == "{":
		v := operand{kind: isVector}
		for {
			v.vector = append(v.vector, p.operand())
			if len(v.vector) > 8 {
				p.fail("a vector of more than 8")
			}
			if !p.acceptToken(",") {
				break
			}
		}
		p.expectToken("}")
		return v
	case t == "-":
		return operand{kind: isImmediate, value: -p.number(p.nextToken())}
	case t[0] >= '0' && t[0] <= '9':
		return operand{kind: isImmediate, value: p.number(t)}
	default:
		return p.namedOperand(t)
	}
}

func (p *parser) namedOperand(t string) operand {
	if s, ok := p.findRegister(t); ok {
		return operand{kind: isRegister, reg: s}
	}
	for _, s := range specialNames {
		if s == t {
			return operand{kind: isSpecial, name: t}
		}
	}
	switch {
	case t == p.param && t != "":
		return operand{kind: isImmediate, param: true}
	case p.dynamic[t]:
		p.k.Dynamic = true
		return operand{kind: isSpecial, name: dynamicName}
	}
	if at, ok := p.symbols[t]; ok {
		return operand{kind: isImmediate, value: at}
	}
	if t[0] == '%' {
		p.position--
		p.fail("no register %q", t)
	}
	return operand{kind: isName, name: t}
}

// number reads an integer, or a float given as 0f and eight hexadecimal digits.
func (p *parser) number(t string) uint64 {
	if hex, ok := strings.CutPrefix(t, "0f"); ok && len(hex) == 8 {
		if v, err := strconv.ParseUint(hex, 16, 32); err == nil {
			return v
		}
	} else if v, err := strconv.ParseUint(t, 0, 64); err == nil {
		return v
	}
	p.position--
	p.fail("%q is no number", t)
	return 0
}

// address reads [register or symbol + offset].
func (p *parser) address() operand {
	a := operand{kind: isAddress}
	switch o := p.operand(); {
	case o.kind == isRegister && o.reg.class == long:
		a.reg, a.base = o.reg, true
	case o.kind == isSpecial && o.name == dynamicName:
		a.reg, a.base = slot{long, p.specialRegister(dynamicName, long)}, true
	case o.kind == isImmediate:
		a.value, a.param = o.value, o.param
	default:
		p.fail("an address needs a register of 64 bits or a symbol")
	}
	if p.acceptToken("+") {
		negative := p.acceptToken("-")
		v := p.number(p.nextToken())
		if v > math.MaxInt32 {
			p.fail("offset %d", v)
		}
		if negative {
			v = -v
		}
		a.value += v
	}
	p.expectToken("]")
	return a
}

// inputRegister returns the register that an instruction reads an operand from.
func (p *parser) inputRegister(o operand, c class) int {
	switch {
	case o.kind == isRegister && o.reg.class == c:
		return o.reg.index
	case o.kind == isImmediate:
		return p.constant(c, o.value)
	case o.kind == isSpecial && (c == word || c == long && o.name == dynamicName):
		return p.specialRegister(o.name, c)
	}
	p.fail("an operand is not of the instruction's type")
	return 0
}

// outputRegister returns the register that an instruction writes.
func (p *parser) outputRegister(o operand, c class) int {
	if o.kind != isRegister || o.reg.class != c {
		p.fail("the destination is not of the instruction's type")
	}
	return o.reg.index
}

func (p *parser) constant(c class, v uint64) int {
	key := constant{class: c, value: v}
	if at, ok := p.immediate[key]; ok {
		return at
	}
	at := p.newRegister(c)
	p.immediate[key] = at
	p.k.constants = append(p.k.constants, constant{c, at, v})
	return at
}

// specialRegister treats the address of dynamic shared memory separately: the address is
// long.
func (p *parser) specialRegister(name string, c class) int {
	if (name == dynamicName) != (c == long) {
		p.fail("%s is not of the instruction's type", name)
	}
	if at, ok := p.specials[name]; ok {
		return at
	}
	at := p.newRegister(c)
	p.specials[name] = at
	p.k.special = append(p.k.special, special{at, name})
	return at
}
