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

// table is one of the four that a device has.
type table struct {
	name string // in settings
	many string // in messages
	code byte   // of the function that reads it
	most int    // of them in a request
}

var tables = map[string]*table{
	"holding":  {"holding", "holding registers", 3, 125},
	"input":    {"input", "input registers", 4, 125},
	"coil":     {"coil", "coils", 1, 2000},
	"discrete": {"discrete", "discrete inputs", 2, 2000},
}

func (t *table) bits() bool { return t.most == 2000 }

// register is a value of a device, and what it is.
type register struct {
	name string // KEY/CHANNEL
	image.Place
	unit          byte
	table         *table
	at, count     int // registers or bits
	kind, order   string
	linear        bool // it has a scale or an offset
	scale, offset float64
	none          []uint64 // raw values of count registers that mean that there is no value
	warned        bool     // that a value is often one of those
}

// Package internal/config has the same pattern; a test of the commands compares what
// the two accept.
const (
	number  = `(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][+-]?[0-9]{1,2})?`
	address = `(0|[1-9][0-9]{0,5})`
	noValue = `(?:0x[0-9a-fA-F]{1,16}|-?` + number + `)`
)

var aRegister = regexp.MustCompile(`^(?:(0|[1-9][0-9]{0,2})/)?` +
	`(?:(holding|input):` + address + `:(int16|uint16|int32|uint32|float32|float64)(?::(abcd|badc|cdab|dcba))?|(coil|discrete):` + address + `)` +
	`(?: [*] (-?` + number + `))?(?: ([+-] ` + number + `))?(?: without (sunspec|` + noValue + `(?:,` + noValue + `)*))?$`)

var words = map[string]int{"int16": 1, "uint16": 1, "int32": 2, "uint32": 2, "float32": 2, "float64": 4}

var setting = image.Setting{Name: "gateway.modbus.registers", Each: "register", Example: "holding:100:float32"}

// parseRegisters reads registers by KEY/CHANNEL. unit is of those that name none.
func parseRegisters(all map[string]string, channels []string, unit byte) (keys []string, regs []register, err error) {
	names := slices.Sorted(maps.Keys(all))
	keys, places, err := setting.Places(names, channels)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		r, err := parseRegister(all[name], unit)
		if err != nil {
			return nil, nil, fmt.Errorf("gateway: %s: %q is %q: %w", setting.Name, name, all[name], err)
		}
		r.name, r.Place = name, places[i]
		regs = append(regs, r)
	}
	return keys, regs, nil
}

func parseRegister(text string, unit byte) (register, error) {
	m := aRegister.FindStringSubmatch(text)
	if m == nil {
		return register{}, fmt.Errorf("want TABLE:ADDRESS:TYPE, such as holding:100:float32 or input:7:int16:badc * 0.1 - 40, coil:3 or discrete:3; a unit and a / may be before it (tables: holding, input, coil, discrete; types: int16, uint16, int32, uint32, float32, float64; orders: abcd, badc, cdab, dcba; numbers have no leading zeros); after it, what means that there is no value: without 0x8000, or without sunspec")
	}
	r := register{unit: unit, table: tables[cmp.Or(m[2], m[6])], count: 1, kind: m[4], order: cmp.Or(m[5], "abcd"), scale: 1}
	if !r.table.bits() {
		r.count = words[r.kind]
	}
	r.at, _ = strconv.Atoi(cmp.Or(m[3], m[7]))
	if m[1] != "" {
		n, _ := strconv.Atoi(m[1])
		if n > 255 {
			return register{}, fmt.Errorf("unit %d: want 0 to 255", n)
		}
		r.unit = byte(n)
	}
	if r.at+r.count > 1<<16 {
		return register{}, fmt.Errorf("%[3]s: %[2]d from address %[1]d on go beyond 65535: addresses count from 0, so what a manual calls 40101 or 400101 is holding:100", r.at, r.count, r.table.many)
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
		if r.none, err = r.parseNone(m[10]); err != nil {
			return register{}, err
		}
	}
	return r, nil
}

// request reads registers that touch.
type request struct {
	unit      byte
	table     *table
	at, count int
	of        []int // registers of the client, in the order of their addresses
}

// group makes as few requests as can be of registers, without one that nobody has
// named.
func group(regs []register, of []int) []request {
	sorted := slices.Clone(of)
	slices.SortStableFunc(sorted, func(a, b int) int {
		x, y := &regs[a], &regs[b]
		return cmp.Or(cmp.Compare(x.unit, y.unit), cmp.Compare(x.table.code, y.table.code), cmp.Compare(x.at, y.at))
	})
	var all []request
	for _, i := range sorted {
		r := &regs[i]
		if n := len(all); n > 0 {
			q := &all[n-1]
			end := max(q.at+q.count, r.at+r.count)
			if q.unit == r.unit && q.table == r.table && r.at <= q.at+q.count && end-q.at <= r.table.most {
				q.count, q.of = end-q.at, append(q.of, i)
				continue
			}
		}
		all = append(all, request{r.unit, r.table, r.at, r.count, []int{i}})
	}
	return all
}

// halve makes two requests of one that has several registers.
func (q request) halve(regs []register) []request {
	half := len(q.of) / 2
	return append(group(regs, q.of[:half]), group(regs, q.of[half:])...)
}

// say is the request as messages show it.
func (q request) say(regs []register) string {
	const shown = 3
	var names []string
	for _, i := range q.of[:min(shown, len(q.of))] {
		names = append(names, regs[i].name)
	}
	text := strings.Join(names, ", ")
	if n := len(q.of) - shown; n > 0 {
		text += fmt.Sprintf(" and %d others", n)
	}
	which := fmt.Sprintf("%s %d to %d", q.table.many, q.at, q.at+q.count-1)
	if q.count == 1 {
		which = fmt.Sprintf("%s %d", strings.TrimSuffix(q.table.many, "s"), q.at)
	}
	return fmt.Sprintf("unit %d, %s (%s)", q.unit, which, text)
}
