package modbus

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func parseText(t testing.TB, text string) register {
	t.Helper()
	r, err := parseRegister(text, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The value of a register in each byte order, against literal bytes.
func TestValues(t *testing.T) {
	nan := float32(math.NaN())
	f32, f64 := []byte{0x42, 0x28, 0x12, 0x34}, []byte{0x40, 0x45, 0x02, 0x46, 0x8a, 0xce, 0x13, 0x57}
	swapped := func(b []byte, order ...int) []byte {
		var result []byte
		for _, i := range order {
			result = append(result, b[i])
		}
		return result
	}
	for _, c := range []struct {
		text  string
		bytes []byte
		want  float32
	}{
		{"holding:0:int16", []byte{0xff, 0xfe}, -2},
		{"holding:0:uint16", []byte{0xff, 0xfe}, 65534},
		{"holding:0:uint16:cdab", []byte{0x12, 0x34}, 0x1234}, // one word: nothing to swap
		{"holding:0:uint16:badc", []byte{0x34, 0x12}, 0x1234},
		{"holding:0:uint16:dcba", []byte{0x34, 0x12}, 0x1234},
		{"input:0:int32", []byte{0xff, 0xff, 0xff, 0xfd}, -3},
		{"input:0:uint32", []byte{0x80, 0, 0, 0}, 1 << 31},
		{"input:0:uint32:cdab", []byte{3, 4, 1, 2}, 0x01020304},
		{"input:0:uint32:badc", []byte{2, 1, 4, 3}, 0x01020304},
		{"input:0:uint32:dcba", []byte{4, 3, 2, 1}, 0x01020304},
		{"holding:0:float32", f32, math.Float32frombits(0x42281234)},
		{"holding:0:float32:cdab", swapped(f32, 2, 3, 0, 1), math.Float32frombits(0x42281234)},
		{"holding:0:float64", f64, float32(math.Float64frombits(0x404502468ace1357))},
		{"holding:0:float64:cdab", swapped(f64, 6, 7, 4, 5, 2, 3, 0, 1), float32(math.Float64frombits(0x404502468ace1357))},
		{"holding:0:float64:badc", swapped(f64, 1, 0, 3, 2, 5, 4, 7, 6), float32(math.Float64frombits(0x404502468ace1357))},
		{"holding:0:float64:dcba", swapped(f64, 7, 6, 5, 4, 3, 2, 1, 0), float32(math.Float64frombits(0x404502468ace1357))},
		{"holding:0:int16 * 0.1 - 40", []byte{0x02, 0x9e}, 27}, // 670
		{"holding:0:int16 * -2 + 0.5", []byte{0, 3}, -5.5},
		{"holding:0:int16 + 7", []byte{0, 3}, 10},
		{"coil:0", []byte{1}, 1},
		{"discrete:0 * 5", []byte{1}, 5},
		{"coil:0", []byte{0xfe}, 0},
		{"holding:0:float32", []byte{0x7f, 0xc0, 0, 0}, float32(math.NaN())},
		{"holding:0:float64", []byte{0x7e, 0x37, 0xe4, 0x3c, 0x88, 0, 0x75, 0x9c}, float32(math.Inf(1))}, // 1e300

		// Values that mark an absent value.
		{"holding:0:int16 * 0.1 without 0x8000", []byte{0x80, 0}, nan},
		{"holding:0:int16 * 0.1 without 0x8000", []byte{0x80, 1}, -3276.7},
		{"holding:0:int16 without -32768,32767", []byte{0x7f, 0xff}, nan},
		{"holding:0:int16 without sunspec", []byte{0x80, 0}, nan},
		{"holding:0:uint16 without sunspec", []byte{0xff, 0xff}, nan},
		{"holding:0:uint16 without sunspec", []byte{0x80, 0}, 32768},
		{"holding:0:int32:cdab without sunspec", []byte{0, 0, 0x80, 0}, nan},
		{"holding:0:uint32 without sunspec", []byte{0xff, 0xff, 0xff, 0xff}, nan},
		{"holding:0:uint32 without 0", []byte{0, 0, 0, 0}, nan},
		{"holding:0:float32 without sunspec", []byte{0x7f, 0xc0, 0, 0}, nan},
		{"holding:0:float32 without -9999,1e30", []byte{0xc6, 0x1c, 0x3c, 0}, nan},
		{"holding:0:float64 without -1", []byte{0xbf, 0xf0, 0, 0, 0, 0, 0, 0}, nan},
		{"holding:0:int16", []byte{0x80, 0}, -32768},
		{"holding:0:uint16", []byte{0xff, 0xff}, 65535},
	} {
		r := parseText(t, c.text)
		q := request{1, r.table, r.address, r.count, []int{0}}
		if got := r.value(&q, c.bytes); got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("%s of % x: %v, want %v", c.text, c.bytes, got, c.want)
		}
	}
}

// The value of a register in the middle of an answer.
func TestValueAt(t *testing.T) {
	answer := make([]byte, 250)
	for i := range 125 {
		binary.BigEndian.PutUint16(answer[2*i:], uint16(i))
	}
	r := parseText(t, "holding:130:uint16")
	if x := r.value(&request{address: 100}, answer); x != 30 {
		t.Error(x)
	}
	bit := parseText(t, "coil:119")
	if x := bit.value(&request{address: 100}, []byte{0, 0, 0b1000}); x != 1 {
		t.Error(x)
	}
}

func describeRequests(texts ...string) string {
	var regs []register
	var registers []int
	for i, text := range texts {
		r, err := parseRegister(text, 1)
		if err != nil {
			panic(err)
		}
		regs, registers = append(regs, r), append(registers, i)
	}
	var words []string
	for _, q := range groupRegisters(regs, registers) {
		words = append(words, fmt.Sprintf("%d/%s:%d+%d%v", q.unit, q.table.name, q.address, q.count, q.registers))
	}
	return strings.Join(words, " ")
}

func TestGroup(t *testing.T) {
	var full, bits []string
	for i := range 126 {
		full = append(full, fmt.Sprintf("input:%d:int16", i))
	}
	for i := range 2001 {
		bits = append(bits, fmt.Sprintf("coil:%d", i))
	}
	for _, c := range []struct{ got, want string }{
		{describeRequests("holding:4:float32", "holding:0:float64", "holding:6:int16"), "1/holding:0+7[1 0 2]"},
		{describeRequests("holding:0:int16", "holding:2:int16"), "1/holding:0+1[0] 1/holding:2+1[1]"},   // register 1 is not configured
		{describeRequests("holding:0:float64", "holding:1:int16"), "1/holding:0+4[0 1]"},                // within another register
		{describeRequests("holding:0:int16", "holding:0:uint16"), "1/holding:0+1[0 1]"},                 // the same register twice
		{describeRequests("holding:0:int16", "input:1:int16"), "1/holding:0+1[0] 1/input:1+1[1]"},       // another table
		{describeRequests("2/holding:1:int16", "holding:0:int16"), "1/holding:0+1[1] 2/holding:1+1[0]"}, // another unit
		{describeRequests("holding:65535:int16", "holding:65531:float64"), "1/holding:65531+5[1 0]"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if s := describeRequests(full...); !strings.HasPrefix(s, "1/input:0+125[") || !strings.HasSuffix(s, "1/input:125+1[125]") {
		t.Error(s)
	}
	if s := describeRequests(bits...); !strings.HasPrefix(s, "1/coil:0+2000[") || !strings.HasSuffix(s, "1/coil:2000+1[2000]") {
		t.Error(s)
	}
	// The limit does not split a value.
	if s := describeRequests(append(full[:124:124], "input:124:float32")...); !strings.HasSuffix(s, "1/input:124+2[124]") {
		t.Error(s)
	}
}

// For arbitrary registers: each register is in exactly one request of its unit and table, no
// request is too long, and halves have the same registers.
func TestGroupAny(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var regs []register
		var registers []int
		for i := range 1 + r.IntN(60) {
			kinds := []string{"holding:%d:int16", "holding:%d:float32", "holding:%d:float64", "2/holding:%d:int16", "input:%d:uint32", "coil:%d"}
			reg := parseText(t, fmt.Sprintf(kinds[r.IntN(len(kinds))], r.IntN(300)))
			regs, registers = append(regs, reg), append(registers, i)
		}
		var counts []int
		check := func(q request) {
			if q.count > q.table.limit {
				t.Fatalf("%d registers", q.count)
			}
			for _, i := range q.registers {
				if x := &regs[i]; x.address < q.address || x.address+x.count > q.address+q.count || x.table != q.table || x.unit != q.unit {
					t.Fatalf("%+v in %+v", x, q)
				}
			}
		}
		for _, q := range groupRegisters(regs, registers) {
			check(q)
			counts = append(counts, q.registers...)
			if len(q.registers) < 2 {
				continue
			}
			var parts []int
			for _, half := range q.halve(regs) {
				check(half)
				parts = append(parts, half.registers...)
				if len(half.registers) == len(q.registers) {
					t.Fatal("a half is the whole")
				}
			}
			if slices.Sort(parts); !slices.Equal(parts, slices.Sorted(slices.Values(q.registers))) {
				t.Fatalf("%v, halves %v", q.registers, parts)
			}
		}
		if slices.Sort(counts); !slices.Equal(counts, registers) {
			t.Fatalf("%v of %d", counts, len(registers))
		}
	}
}

// Parsing accepts or refuses any text without a panic.
func FuzzRegister(f *testing.F) {
	for _, text := range []string{"holding:100:float32", "3/input:7:int16:badc * 0.1 - 40", "coil:65535", "discrete:0 + 1", "holding:65535:float32", "300/coil:1", "holding:1", "40101"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRegister(text, 1)
		if err != nil {
			return
		}
		q := request{r.unit, r.table, r.address, r.count, []int{0}}
		r.value(&q, make([]byte, 2*r.count))
		if r.address+r.count > 65536 || r.scale == 0 {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

// A value that marks absence on many devices is logged once, unless the register declares its
// meaning.
func TestSuspectValues(t *testing.T) {
	for text, want := range map[string]int{"holding:0:int16": 1, "holding:0:int16 without 0x8000": 0, "holding:0:int16 without 0x7fff": 0, "holding:0:uint16": 0, "coil:0": 0, "holding:0:float32": 0} {
		r, n := parseText(t, text), 0
		q := request{1, r.table, r.address, r.count, []int{0}}
		for range 3 {
			if r.isSuspect(&q, []byte{0x80, 0, 0, 0}) {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: told %d times, want %d", text, n, want)
		}
	}
}

// A number has one spelling: leading zeros are refused, and so are values outside the type.
func TestRefusedNumbers(t *testing.T) {
	for _, text := range []string{"010/holding:1:int16", "holding:0100:int16", "coil:01", "holding:1:int16 * 010", "holding:1:int16 + 01", "holding:1:int16 without 010", "holding:1:int16 without 0x10000", "holding:1:uint16 without -1", "holding:1:uint16 without 1.5", "coil:1 without 0", "holding:1:int16 without"} {
		if r, err := parseRegister(text, 1); err == nil {
			t.Errorf("%s: %+v", text, r)
		}
	}
}
