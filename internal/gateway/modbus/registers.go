package modbus

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
)

// table is one of a device's four tables.
type table struct {
	name  string // name in settings
	many  string // plural in messages
	code  byte   // function code for reading
	limit int    // limit per request
}

var tables = map[string]*table{
	"holding":  {"holding", "holding registers", 3, 125},
	"input":    {"input", "input registers", 4, 125},
	"coil":     {"coil", "coils", 1, 2000},
	"discrete": {"discrete", "discrete inputs", 2, 2000},
}

func (t *table) isBits() bool { return t.limit == 2000 }

// register is a value of a device and its place in the samples.
type register struct {
	name string // KEY/CHANNEL
	image.Place
	unit           byte
	table          *table
	address, count int // registers or bits
	kind, order    string
	linear         bool // has a scale or an offset
	scale, offset  float64
	absent         []uint64 // raw values that mark an absent value
	warned         bool     // a suspect value was logged
}

// Package internal/config has the same pattern; a test of the commands compares both.
const (
	numberPattern  = `(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][+-]?[0-9]{1,2})?`
	addressPattern = `(0|[1-9][0-9]{0,5})`
	absentPattern  = `(?:0x[0-9a-fA-F]{1,16}|-?` + numberPattern + `)`
)

var registerPattern = regexp.MustCompile(`^(?:(0|[1-9][0-9]{0,2})/)?` +
	`(?:(holding|input):` + addressPattern + `:(int16|uint16|int32|uint32|float32|float64)(?::(abcd|badc|cdab|dcba))?|(coil|discrete):` + addressPattern + `)` +
	`(?: [*] (-?` + numberPattern + `))?(?: ([+-] ` + numberPattern + `))?(?: without (sunspec|` + absentPattern + `(?:,` + absentPattern + `)*))?$`)

var registersPerType = map[string]int{"int16": 1, "uint16": 1, "int32": 2, "uint32": 2, "float32": 2, "float64": 4}

var setting = image.Setting{Name: "gateway.modbus.registers", Each: "register", Example: "holding:100:float32"}

// parseRegisters parses registers by KEY/CHANNEL. The argument unit is the unit of registers
// without a unit.
func parseRegisters(texts map[string]string, channels []string, unit byte) (keys []string, regs []register, err error) {
	names := slices.Sorted(maps.Keys(texts))
	keys, places, err := setting.Places(names, channels)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		r, err := parseRegister(texts[name], unit)
		if err != nil {
			return nil, nil, fmt.Errorf("gateway: %s: %q is %q: %w", setting.Name, name, texts[name], err)
		}
		r.name, r.Place = name, places[i]
		regs = append(regs, r)
	}
	return keys, regs, nil
}

func parseRegister(text string, unit byte) (register, error) {
	m := registerPattern.FindStringSubmatch(text)
	if m == nil {
		return register{}, fmt.Errorf("want TABLE:ADDRESS:TYPE, such as holding:100:float32 or input:7:int16:badc * 0.1 - 40, coil:3 or discrete:3; a unit and a / may come first (tables: holding, input, coil, discrete; types: int16, uint16, int32, uint32, float32, float64; orders: abcd, badc, cdab, dcba; numbers have no leading zeros); at the end, the raw values that mark a missing value: without 0x8000, or without sunspec")
	}
	r := register{unit: unit, table: tables[cmp.Or(m[2], m[6])], count: 1, kind: m[4], order: cmp.Or(m[5], "abcd"), scale: 1}
	if !r.table.isBits() {
		r.count = registersPerType[r.kind]
	}
	r.address, _ = strconv.Atoi(cmp.Or(m[3], m[7]))
	if m[1] != "" {
		n, _ := strconv.Atoi(m[1])
		if n > 255 {
			return register{}, fmt.Errorf("unit %d: want 0 to 255", n)
		}
		r.unit = byte(n)
	}
	if r.address+r.count > 1<<16 {
		return register{}, fmt.Errorf("%[3]s: %[2]d from address %[1]d exceed 65535: addresses start at 0, so 40101 or 400101 in a manual is holding:100", r.address, r.count, r.table.many)
	}
	var err error
	if m[8] != "" {
		r.linear = true
		if r.scale, err = strconv.ParseFloat(m[8], 64); err != nil || r.scale == 0 {
			return register{}, fmt.Errorf("scale %s: want a number that is not 0", m[8])
		}
	}
	if m[9] != "" {
		r.linear = true
		if r.offset, err = strconv.ParseFloat(strings.ReplaceAll(m[9], " ", ""), 64); err != nil {
			return register{}, fmt.Errorf("offset %s: want a number", m[9])
		}
	}
	if m[10] != "" {
		if r.absent, err = r.parseNone(m[10]); err != nil {
			return register{}, err
		}
	}
	return r, nil
}

// request reads adjacent registers.
type request struct {
	unit           byte
	table          *table
	address, count int
	registers      []int // indices of the client's registers, in the order of their addresses
}

// groupRegisters groups registers into the fewest requests, without any unconfigured register.
func groupRegisters(regs []register, registers []int) []request {
	sorted := slices.Clone(registers)
	slices.SortStableFunc(sorted, func(a, b int) int {
		x, y := &regs[a], &regs[b]
		return cmp.Or(cmp.Compare(x.unit, y.unit), cmp.Compare(x.table.code, y.table.code), cmp.Compare(x.address, y.address))
	})
	var requests []request
	for _, i := range sorted {
		r := &regs[i]
		if n := len(requests); n > 0 {
			q := &requests[n-1]
			end := max(q.address+q.count, r.address+r.count)
			if q.unit == r.unit && q.table == r.table && r.address <= q.address+q.count && end-q.address <= r.table.limit {
				q.count, q.registers = end-q.address, append(q.registers, i)
				continue
			}
		}
		requests = append(requests, request{r.unit, r.table, r.address, r.count, []int{i}})
	}
	return requests
}

// halve splits a request for several registers into two.
func (q request) halve(regs []register) []request {
	half := len(q.registers) / 2
	return append(groupRegisters(regs, q.registers[:half]), groupRegisters(regs, q.registers[half:])...)
}

// describe returns the request as text for messages.
func (q request) describe(regs []register) string {
	const shown = 3
	var names []string
	for _, i := range q.registers[:min(shown, len(q.registers))] {
		names = append(names, regs[i].name)
	}
	text := strings.Join(names, ", ")
	if n := len(q.registers) - shown; n > 0 {
		text += fmt.Sprintf(" and %d others", n)
	}
	addresses := fmt.Sprintf("%s %d to %d", q.table.many, q.address, q.address+q.count-1)
	if q.count == 1 {
		addresses = fmt.Sprintf("%s %d", strings.TrimSuffix(q.table.many, "s"), q.address)
	}
	return fmt.Sprintf("unit %d, %s (%s)", q.unit, addresses, text)
}
