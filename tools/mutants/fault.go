package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kernel is a function of an assembly file.
type kernel struct {
	name  string
	first int // line of its TEXT, from 1
	lines []string
}

var text = regexp.MustCompile(`^TEXT ·([A-Za-z0-9_]+)\(SB\)`)

// kernelsOf returns the functions of an assembly file, in its order.
func kernelsOf(file string) (all []kernel) {
	for i, line := range strings.Split(file, "\n") {
		if m := text.FindStringSubmatch(line); m != nil {
			all = append(all, kernel{m[1], i + 1, nil})
		}
		if n := len(all); n > 0 {
			all[n-1].lines = append(all[n-1].lines, line)
		}
	}
	return all
}

// fault is a change of one line of a file.
type fault struct {
	line     int // from 1
	old, new string
}

// faults returns all faults of a kind in a kernel.
func (k kernel) faults(kind kind) (all []fault) {
	for i, line := range k.lines {
		code, _, _ := strings.Cut(line, "//")
		op, rest, _ := strings.Cut(strings.TrimSpace(code), " ")
		if !strings.HasPrefix(line, "\t") || op == "" || slices.Contains(unseen, op) {
			continue
		}
		if changed := kind.change(op, operands(rest)); changed != "" {
			all = append(all, fault{k.first + i, strings.Join(strings.Fields(line), " "), changed})
		}
	}
	return all
}

// unseen are instructions without effect on the numbers, and the function's end.
var unseen = []string{"VZEROUPPER", "PCALIGN", "NOP", "PREFETCHT0", "PRFM", "RET"}

// operands splits at the commas outside brackets.
func operands(s string) (list []string) {
	depth, from := 0, 0
	for i, c := range s {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				list, from = append(list, strings.TrimSpace(s[from:i])), i+1
			}
		}
	}
	if last := strings.TrimSpace(s[from:]); last != "" {
		list = append(list, last)
	}
	return list
}

// kind is a way to change an instruction; change returns "" if there is none.
type kind struct {
	name   string
	change func(op string, args []string) string
}

var kinds = []kind{{"drop", drop}, {"swap", swap}, {"constant", constant}, {"register", register}, {"operation", operation}, {"unfuse", unfuse}}

func kindNames() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func instruction(op string, args []string) string { return op + " " + strings.Join(args, ", ") }

// drop removes the instruction.
func drop(string, []string) string { return "// left out" }

// ordered are operations whose first two operands must not be exchanged. A maximum is not
// included, because it differs only for zeros of two signs: TestMaxOfZeros.
var ordered = regexp.MustCompile(`^(VSUB|VPSUB|VDIV|VPACK|VUNPCK|VPCMPGT|VPERM2F128|VPERMD|VSHUFF64X2|VINSERTF128|VUZP|VZIP|VTRN|VBIT|VUADDW)`)

// swap exchanges the sources.
func swap(op string, args []string) string {
	n := len(args)
	if !ordered.MatchString(op) || n < 3 || args[n-3] == args[n-2] {
		return ""
	}
	args = slices.Clone(args)
	args[n-3], args[n-2] = args[n-2], args[n-3]
	return instruction(op, args)
}

var (
	immediate = regexp.MustCompile(`^\$(0x[0-9a-f]+|[0-9]+)$`)
	memory    = regexp.MustCompile(`^([0-9]*)(\([A-Z0-9]+\).*)$`)
)

// constant adds one to the first constant (or a float's size to a constant in bytes), or
// accesses memory one float further.
func constant(op string, args []string) string {
	if op == "WORD" || strings.HasPrefix(op, "VBROADCASTSS") { // the second reads tables of one number
		return ""
	}
	for i, a := range args {
		changed := ""
		if m := immediate.FindStringSubmatch(a); m != nil {
			v, err := strconv.ParseUint(m[1], 0, 32)
			if err != nil {
				continue
			}
			if v >= 16 && v%16 == 0 {
				v += 3
			}
			changed = fmt.Sprintf("$%d", v+1)
		} else if m := memory.FindStringSubmatch(a); m != nil {
			at, _ := strconv.Atoi("0" + m[1])
			changed = fmt.Sprintf("%d%s", at+4, m[2])
		}
		if changed != "" {
			args = slices.Clone(args)
			args[i] = changed
			return instruction(op, args)
		}
	}
	return ""
}

var vector = regexp.MustCompile(`^([XYZKVF])([0-9]+)(\..*)?$`)

// register replaces the first vector or mask register by its neighbor.
func register(op string, args []string) string {
	if w, ok := word(op, args); ok {
		return fmt.Sprintf("WORD $%#08x", w^1<<5) // the first source
	}
	for i, a := range args {
		if m := vector.FindStringSubmatch(a); m != nil {
			n, _ := strconv.Atoi(m[2])
			if n ^= 1; m[1] == "K" {
				n = (n^1)%7 + 1 // K0 is not a mask
			}
			args = slices.Clone(args)
			args[i] = m[1] + strconv.Itoa(n) + m[3]
			return instruction(op, args)
		}
	}
	return ""
}

// others are operations with the same operands.
var others = pairs(
	"VADDPS VSUBPS", "VMAXPS VMINPS", "VMULPS VADDPS", "VDIVPS VMULPS", "VFMADD231PS VFNMADD231PS",
	"VPSUBW VPADDW", "VPSUBB VPADDB", "VPACKSSDW VPACKUSDW", "VPACKSSWB VPACKUSWB", "VPCMPGTW VPCMPEQW",
	"VPAND VPOR", "VPXOR VPAND", "KXORQ KORQ", "VUNPCKLPS VUNPCKHPS", "VUNPCKLPD VUNPCKHPD", "VPTESTNMB VPTESTMB",
	"ADDQ SUBQ", "INCQ DECQ", "JNZ JZ", "JNE JEQ", "JLT JGE",
	"VFMLA VFMLS", "VUZP1 VUZP2", "VZIP1 VZIP2", "VTRN1 VTRN2", "VEOR VORR", "VAND VORR", "VSUB VADD",
	"VUADDW VUADDW2", "VUXTL VUXTL2", "VBIT VBIF", "ADD SUB", "SUBS ADDS", "BNE BEQ", "BLT BGE", "CBNZ CBZ",
)

func pairs(list ...string) map[string]string {
	both := map[string]string{}
	for _, p := range list {
		a, b, _ := strings.Cut(p, " ")
		both[a] = b
		if both[b] == "" {
			both[b] = a
		}
	}
	return both
}

// arm64Float are the bits of the operations on four floats that Go's assembler does not
// support, without their registers; the exchanged operation differs in one bit: an
// addition is a subtraction, a maximum a minimum, > becomes >=.
var arm64Float = map[uint32]bool{0x4e20d400: true, 0x4ea0d400: true, 0x4e20f400: true, 0x4ea0f400: true, 0x6ea0e400: true, 0x6e20e400: true}

func operation(op string, args []string) string {
	if w, ok := word(op, args); ok {
		if arm64Float[w&0xffe0fc00] {
			return fmt.Sprintf("WORD $%#08x", w^1<<23)
		}
		return ""
	}
	if other := others[op]; other != "" {
		return instruction(other, args)
	}
	return ""
}

// word returns an instruction in numeric form.
func word(op string, args []string) (uint32, bool) {
	if op != "WORD" || len(args) != 1 {
		return 0, false
	}
	w, err := strconv.ParseUint(strings.TrimPrefix(args[0], "$"), 0, 32)
	return uint32(w), err == nil
}

// unfuse rounds the product of a fused multiply-add. The product is in a register whose
// value is saved below the stack pointer.
func unfuse(op string, args []string) string {
	if op != "VFMADD231PS" && op != "VFMLA" || len(args) != 3 {
		return ""
	}
	var used []int
	for _, a := range args {
		if m := vector.FindStringSubmatch(a); m != nil {
			n, _ := strconv.Atoi(m[2])
			used = append(used, n)
		}
	}
	free := 0
	for slices.Contains(used, free) {
		free++
	}
	if op == "VFMADD231PS" {
		r := args[2][:1] + strconv.Itoa(free)
		return fmt.Sprintf("VMOVUPS %s, -64(SP); VMULPS %s, %s, %s; VADDPS %s, %s, %s; VMOVUPS -64(SP), %s", r, args[0], args[1], r, r, args[2], args[2], r)
	}
	multiply := 0x6e20dc00 | used[0]<<16 | used[1]<<5 | free
	add := 0x4e20d400 | free<<16 | used[2]<<5 | used[2]
	return fmt.Sprintf("FMOVQ F%d, -64(RSP); WORD $%#08x; WORD $%#08x; FMOVQ -64(RSP), F%d", free, multiply, add, free)
}
