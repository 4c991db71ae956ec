package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func (d *senmlDecoder) readJSON(text []byte, add func(*senmlRecord, int) error) error {
	d.tokens.Reset(bytes.NewReader(text))
	defer d.tokens.Reset(bytes.NewReader(nil))
	if _, err := d.tokens.ReadToken(); err != nil {
		return malformed(SenML, "%v", plainJSON(err))
	}
	var r senmlRecord
	for i := 0; d.tokens.PeekKind() != ']'; i++ {
		r = senmlRecord{}
		if k := d.tokens.PeekKind(); k != '{' && k > 0 {
			return malformed(SenML, "record %d is no object", i)
		}
		if err := json.UnmarshalDecode(d.tokens, &r); err != nil {
			return malformed(SenML, "record %d: %v", i, plainJSON(err))
		}
		if err := add(&r, i); err != nil {
			return err
		}
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return malformed(SenML, "%v", plainJSON(err))
	}
	if _, err := d.tokens.ReadToken(); !errors.Is(err, io.EOF) {
		return malformed(SenML, "something follows the array")
	}
	return nil
}

// plainJSON returns an error of the library without the names of the library and of our
// types.
func plainJSON(err error) string {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		return fmt.Sprintf("%s is of the wrong type: want a text for n, u, vs, bn and bu, a bool for vb", semantic.JSONPointer)
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}

// senmlCBOR refuses everything that no pack needs.
var senmlCBOR = func() cbor.DecMode {
	m, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: 4, MaxArrayElements: 1 << 20, MaxMapPairs: 64, TagsMd: cbor.TagsAllowed}.DecMode()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return m
}()

func (d *senmlDecoder) readCBOR(payload []byte, add func(*senmlRecord, int) error) error {
	var records []cbor.RawMessage
	if err := senmlCBOR.Unmarshal(payload, &records); err != nil {
		return malformed(SenML, "%v", err)
	}
	var r senmlRecord
	for i, raw := range records {
		r = senmlRecord{}
		clear(d.pairs)
		if len(raw) > 0 && raw[0]>>5 != 5 {
			return malformed(SenML, "record %d is no map", i)
		}
		if err := senmlCBOR.Unmarshal(raw, &d.pairs); err != nil {
			return malformed(SenML, "record %d: %v", i, err)
		}
		if err := r.fillFields(d.pairs); err != nil {
			return malformed(SenML, "record %d: %v", i, err)
		}
		if err := add(&r, i); err != nil {
			return err
		}
	}
	return nil
}

// decimalFraction formats a mantissa with a power of ten (RFC 8949, 3.4.4) as a decimal.
func decimalFraction(t cbor.Tag) (text jsontext.Value, ok bool) {
	pair, _ := t.Content.([]any)
	if t.Number != 4 || len(pair) != 2 {
		return nil, false
	}
	var digits [2]string // exponent, mantissa
	for i, v := range pair {
		switch v := v.(type) {
		case uint64:
			digits[i] = strconv.FormatUint(v, 10)
		case int64:
			digits[i] = strconv.FormatInt(v, 10)
		default:
			return nil, false
		}
	}
	return jsontext.Value(digits[1] + "e" + digits[0]), true
}

// senmlLabels are the labels of the supported fields (RFC 8428, table 4).
var senmlLabels = []int64{-1, -2, -3, -4, -5, 0, 1, 2, 3, 4, 5, 6, 8}

// fillFields sets the fields of a record in CBOR, in a fixed order: of several errors the
// same one is always reported.
func (r *senmlRecord) fillFields(pairs map[any]any) error {
	odd, must := false, ""
	for label := range pairs {
		switch label := label.(type) {
		case uint64, int64:
		case string:
			if strings.HasSuffix(label, "_") && (must == "" || label < must) {
				must = label
			}
		default:
			odd = true
		}
	}
	switch {
	case odd:
		return errors.New("a label is no number and no text")
	case must != "":
		return fmt.Errorf("the field %s must be understood, and is not", short([]byte(must)))
	}
	for _, n := range senmlLabels {
		v, there := pairs[n]
		if n >= 0 {
			v, there = pairs[uint64(n)]
		}
		if there {
			if err := r.setField(n, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// setField sets a field of a record in CBOR.
func (r *senmlRecord) setField(n int64, v any) error {
	text := func() (*string, error) {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("label %d is no text", n)
		}
		return &s, nil
	}
	decimal := func(to *jsontext.Value, x *exact) error {
		switch v := v.(type) {
		case uint64:
			*to = strconv.AppendUint(nil, v, 10)
		case int64:
			*to = strconv.AppendInt(nil, v, 10)
		case float64:
			if *to = strconv.AppendFloat(nil, v, 'f', -1, 64); x != nil {
				*x = exact{v, true}
			}
		case cbor.Tag:
			fraction, ok := decimalFraction(v)
			if !ok {
				return fmt.Errorf("label %d has the tag %d: want a number or a decimal fraction (tag 4) of 64 bits", n, v.Number)
			}
			*to = fraction
		default:
			return fmt.Errorf("label %d is no number", n)
		}
		return nil
	}
	var err error
	var s *string
	switch n {
	case -1:
		err = decimal(&r.BaseVersion, nil)
	case -2:
		r.BaseName, err = text()
	case -3:
		err = decimal(&r.BaseTime, nil)
	case -4:
		r.BaseUnit, err = text()
	case -5:
		err = decimal(&r.BaseValue, &r.base)
	case 0:
		if s, err = text(); err == nil {
			r.Name = *s
		}
	case 1:
		if s, err = text(); err == nil {
			r.Unit = *s
		}
	case 2:
		err = decimal(&r.Value, &r.value)
	case 3:
		r.Text, err = text()
	case 4:
		yes, ok := v.(bool)
		if !ok {
			return fmt.Errorf("label 4 is no bool")
		}
		r.Bool = &yes
	case 5:
		err = decimal(&r.Sum, nil)
	case 6:
		err = decimal(&r.Time, nil)
	case 8:
		r.Data = jsontext.Value(`""`)
	}
	return err
}
