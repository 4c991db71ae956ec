package sparkplug

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// payload is a decoded Sparkplug B message.
type payload struct {
	time    uint64 // ms since 1970
	seq     uint64
	timed   bool
	ordered bool // has seq
	metrics []metric
}

// metric is a value with a name, an alias or both.
type metric struct {
	name       string
	alias      uint64
	time       uint64 // ms since 1970
	kind       uint64 // data type; 0: the data type of the birth
	named      bool
	aliased    bool
	timed      bool
	historical bool
	null       bool
	quality    quality
	value      any // nil if absent, or if the type is not a number, a bool or a text
	complex    string
}

// Data types of Sparkplug B.
const (
	int8Type    = 1
	int16Type   = 2
	int32Type   = 3
	int64Type   = 4
	uint8Type   = 5
	uint16Type  = 6
	uint32Type  = 7
	uint64Type  = 8
	boolType    = 11
	stringType  = 12
	dateType    = 13
	textType    = 14
	uuidType    = 15
	datasetType = 16
	bytesType   = 17
	fileType    = 18
	tmplType    = 19
	lastType    = 34
)

// maxMetrics limits the metrics of a message.
const maxMetrics = 1 << 16

// decodePayload decodes a message. Names and texts are copies.
func decodePayload(b []byte) (*payload, error) {
	p := &payload{}
	compressed := false
	err := visitFields(b, func(num protowire.Number, v field) error {
		switch num {
		case 1:
			p.time, p.timed = v.n, true
			return v.expectType("timestamp", protowire.VarintType)
		case 2:
			if err := v.expectType("metrics", protowire.BytesType); err != nil {
				return err
			}
			if len(p.metrics) == maxMetrics {
				return fmt.Errorf("more than %d metrics", maxMetrics)
			}
			m, err := decodeMetric(v.b)
			if err != nil {
				return fmt.Errorf("metric %d: %w", len(p.metrics), err)
			}
			p.metrics = append(p.metrics, m)
		case 3:
			p.seq, p.ordered = v.n, true
			return v.expectType("seq", protowire.VarintType)
		case 4:
			compressed = string(v.b) == "SPBV1.0_COMPRESSED"
		}
		return nil
	})
	if err == nil && compressed {
		err = errors.New("it is compressed: turn compression off at the edge node")
	}
	if err != nil {
		return nil, fmt.Errorf("no Sparkplug B payload: %w", err)
	}
	return p, nil
}

func decodeMetric(b []byte) (m metric, err error) {
	var raw field
	var valueField protowire.Number
	err = visitFields(b, func(num protowire.Number, v field) error {
		switch num {
		case 1:
			m.name, m.named = string(v.b), true
			return v.expectType("name", protowire.BytesType)
		case 2:
			m.alias, m.aliased = v.n, true
			return v.expectType("alias", protowire.VarintType)
		case 3:
			m.time, m.timed = v.n, true
			return v.expectType("timestamp", protowire.VarintType)
		case 4:
			m.kind = v.n
			return v.expectType("datatype", protowire.VarintType)
		case 5:
			m.historical = v.n != 0
			return v.expectType("is_historical", protowire.VarintType)
		case 7:
			m.null = v.n != 0
			return v.expectType("is_null", protowire.VarintType)
		case 9:
			if m.quality, err = qualityOf(v.b); err != nil {
				return fmt.Errorf("properties: %w", err)
			}
			return v.expectType("properties", protowire.BytesType)
		case 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
			raw, valueField = v, num // one of several fields; the last field counts
			return v.expectType("a value", wireTypes[num])
		}
		return nil
	})
	if err == nil && m.kind > lastType {
		err = fmt.Errorf("data type %d is unknown", m.kind)
	}
	switch valueField {
	case 10, 11:
		m.value = raw.n
	case 12:
		m.value = math.Float32frombits(uint32(raw.n))
	case 13:
		m.value = math.Float64frombits(raw.n)
	case 14:
		m.value = raw.n != 0
	case 15:
		m.value = string(raw.b)
	case 16:
		m.complex = "bytes"
	case 17:
		m.complex = "a dataset"
	case 18:
		m.complex = "a template"
	case 19:
		m.complex = "an extension"
	}
	return m, err
}

// typedValue returns the metric's value in its data type.
func (m *metric) typedValue(kind uint64) any {
	n, ok := m.value.(uint64)
	if !ok {
		return m.value
	}
	switch kind {
	case int8Type:
		return int8(n)
	case int16Type:
		return int16(n)
	case int32Type:
		return int32(n)
	case int64Type:
		return int64(n)
	case boolType:
		return n != 0
	}
	return n
}

// isNumeric reports whether values of a type can be samples; otherwise words describes the
// type.
func isNumeric(kind uint64) (ok bool, words string) {
	switch kind {
	case datasetType:
		return false, "a dataset"
	case tmplType:
		return false, "a template"
	case bytesType, fileType:
		return false, "bytes"
	}
	return kind < bytesType, "an array or a set of properties"
}

var wireTypes = map[protowire.Number]protowire.Type{
	10: protowire.VarintType, 11: protowire.VarintType, 12: protowire.Fixed32Type, 13: protowire.Fixed64Type, 14: protowire.VarintType,
	15: protowire.BytesType, 16: protowire.BytesType, 17: protowire.BytesType, 18: protowire.BytesType, 19: protowire.BytesType,
}

// field is a field in the wire format of protobuf.
type field struct {
	typ protowire.Type
	n   uint64
	b   []byte // slice of the payload
}

func (f *field) expectType(name string, typ protowire.Type) error {
	if f.typ != typ {
		return fmt.Errorf("field %s has wire type %d, want %d", name, f.typ, typ)
	}
	return nil
}

// visitFields visits the fields of a message.
func visitFields(b []byte, visit func(protowire.Number, field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := field{typ: typ}
		switch typ {
		case protowire.VarintType:
			f.n, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			f.n = uint64(v)
		case protowire.Fixed64Type:
			f.n, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.b, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := visit(num, f); err != nil {
			return err
		}
	}
	return nil
}

// rebirthCommand returns the command that requests the births of an edge node.
func rebirthCommand(ms uint64) []byte {
	var m []byte
	m = protowire.AppendTag(m, 1, protowire.BytesType)
	m = protowire.AppendString(m, "Node Control/Rebirth")
	m = protowire.AppendTag(m, 3, protowire.VarintType)
	m = protowire.AppendVarint(m, ms)
	m = protowire.AppendTag(m, 4, protowire.VarintType)
	m = protowire.AppendVarint(m, boolType)
	m = protowire.AppendTag(m, 14, protowire.VarintType)
	m = protowire.AppendVarint(m, 1)
	var p []byte
	p = protowire.AppendTag(p, 1, protowire.VarintType)
	p = protowire.AppendVarint(p, ms)
	p = protowire.AppendTag(p, 2, protowire.BytesType)
	return protowire.AppendBytes(p, m)
}
