//go:build amd64 && !purego

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// instruction is one line of objdump's.
type instruction struct {
	at       uint64
	name     string
	operands []string
}

func disassemble(b *testing.B, name string) []instruction {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", "--disassemble=github.com/eusn-stream/eusn-stream/reservoir/internal/kernel."+name+".abi0", self).Output()
	if err != nil {
		b.Fatalf("objdump: %v", err)
	}
	var code []instruction
	for _, m := range regexp.MustCompile(`(?m)^ +([0-9a-f]+):\t(\S+) *(.*)$`).FindAllStringSubmatch(string(out), -1) {
		i := instruction{name: m[2]}
		i.at, _ = strconv.ParseUint(m[1], 16, 64)
		text, _, _ := strings.Cut(m[3], " <")
		text, _, _ = strings.Cut(text, " #")
		i.operands = splitOperands(text)
		code = append(code, i)
	}
	if len(code) == 0 {
		b.Fatalf("objdump shows no %s in %s", name, self)
	}
	return code
}

// splitOperands splits at commas outside of brackets.
func splitOperands(text string) (list []string) {
	depth, from := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0 && i > from:
			list = append(list, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return list
}

// tracer follows a kernel's instructions: it does those on general purpose
// registers, which say where to jump and where the data is, and no other.
type tracer struct {
	code  []instruction
	regs  map[string]uint64
	left  uint64 // what flags compare:
	right uint64 // left with right
}

// follow runs a call and returns its instructions as llvm-mca wants them.
func (t *tracer) follow(b *testing.B, arg uint64) []byte {
	where := map[uint64]int{}
	for i := range t.code {
		where[t.code[i].at] = i
	}
	stack := [2]uint64{0, arg}
	t.regs = map[string]uint64{"rsp": uint64(uintptr(unsafe.Pointer(&stack)))}
	var text bytes.Buffer
	for i := 0; ; {
		c := &t.code[i]
		i++
		jumps, taken := t.jump(c.name)
		switch {
		case c.name == "ret":
			return text.Bytes()
		case jumps:
			fmt.Fprintf(&text, "%s there\n", c.name)
			if taken {
				to, _ := strconv.ParseUint(c.operands[0], 16, 64)
				i = where[to]
			}
			continue
		case c.name[0] != 'v':
			t.do(b, c)
		}
		fmt.Fprintf(&text, "%s %s\n", c.name, strings.Join(c.operands, ", "))
	}
}

func (t *tracer) jump(name string) (jumps, taken bool) {
	switch name {
	case "jmp":
		return true, true
	case "je":
		return true, t.left == t.right
	case "jne":
		return true, t.left != t.right
	case "ja":
		return true, t.left > t.right
	}
	return false, false
}

// do runs one instruction; of those that set flags only what the kernels test.
func (t *tracer) do(b *testing.B, c *instruction) {
	o := c.operands
	last := o[len(o)-1]
	switch c.name {
	case "mov", "movq", "movl":
		_, half := full(o[0])
		t.set(last, t.get(o[0], last), half || c.name == "movl")
	case "movzbl":
		t.set(last, t.get(o[0], last)&0xff, true)
	case "lea":
		t.set(last, t.address(o[0]), false)
	case "test", "testb":
		t.left, t.right = t.get(o[0], last)&t.get(last, o[0]), 0
		if c.name == "testb" {
			t.left &= 0xff
		}
	case "cmp", "cmpq":
		t.left, t.right = t.get(last, o[0]), t.get(o[0], last)
	case "add", "sub", "or", "xor", "dec", "decq", "inc", "shr", "shl", "and", "neg":
		x, y := t.get(last, o[0]), uint64(1)
		if len(o) > 1 {
			y = t.get(o[0], last)
		}
		x = map[string]uint64{"add": x + y, "sub": x - y, "or": x | y, "xor": x ^ y, "dec": x - 1, "decq": x - 1, "inc": x + 1,
			"shr": x >> y, "shl": x << y, "and": x & y, "neg": -x}[c.name]
		t.set(last, x, false)
		t.left, t.right = x, 0
	default:
		b.Fatalf("%s %v at %#x is not known here", c.name, o, c.at)
	}
}

// full is the 64-bit register of a name, and whether the name is that of its
// lower half.
func full(name string) (reg string, half bool) {
	name = strings.TrimPrefix(name, "%")
	switch {
	case name == "":
	case name[0] == 'e':
		return "r" + name[1:], true
	case name[0] == 'r' && strings.HasSuffix(name, "d"):
		return name[:len(name)-1], true
	}
	return name, false
}

// get is an operand's value; the other operand says how wide memory is.
func (t *tracer) get(o, other string) uint64 {
	switch o[0] {
	case '$':
		v, _ := strconv.ParseInt(o[1:], 0, 64)
		return uint64(v)
	case '%':
		reg, half := full(o)
		if half {
			return uint64(uint32(t.regs[reg]))
		}
		return t.regs[reg]
	}
	p := unsafe.Add(unsafe.Pointer(nil), t.address(o))
	if other[0] == '%' {
		if _, half := full(other); half {
			return uint64(*(*uint32)(p))
		}
	}
	return *(*uint64)(p)
}

func (t *tracer) set(o string, v uint64, half bool) {
	if o[0] == '%' {
		reg, lower := full(o)
		if lower {
			v = uint64(uint32(v))
		}
		t.regs[reg] = v
		return
	}
	if half { // numbers, which nothing depends on
		return
	}
	*(*uint64)(unsafe.Add(unsafe.Pointer(nil), t.address(o))) = v
}

var addressForm = regexp.MustCompile(`^(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+),(\d))?\)$`)

// address is where a memory operand is.
func (t *tracer) address(o string) uint64 {
	m := addressForm.FindStringSubmatch(o)
	disp, _ := strconv.ParseInt(m[1], 0, 64)
	at := uint64(disp)
	if m[2] != "" {
		at += t.get(m[2], "")
	}
	if m[3] != "" {
		scale, _ := strconv.ParseUint(m[4], 10, 8)
		at += scale * t.get(m[3], "")
	}
	return at
}
