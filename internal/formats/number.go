package formats

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// fromText returns the sample of a decimal text; ok is false if the text is no number.
// The text is at most as long as its message: reading excess digits is cheap.
func (s *source) fromText(text []byte) (x float32, ok bool) {
	if !isDecimal(text) {
		return special(text)
	}
	if !s.linear {
		// A range error comes with the correct infinity.
		f, _ := strconv.ParseFloat(string(text), 32)
		return float32(f), true
	}
	f, _ := strconv.ParseFloat(string(text), 64)
	return s.scaled(f), true
}

// scaled applies scale and offset, each rounded to float64: a compiler must not fuse the
// operations.
func (s *source) scaled(f float64) float32 {
	if !s.linear {
		return float32(f)
	}
	product := float64(f * s.scale)
	return float32(float64(product + s.offset))
}

// isDecimal reports whether a text is a decimal number: a sign, digits with a point
// between or next to them, an exponent. ParseFloat would also accept hexadecimal numbers
// and underscores.
func isDecimal(s []byte) bool {
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	digits := func() (n int) {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i, n = i+1, n+1
		}
		return n
	}
	n := digits()
	if i < len(s) && s[i] == '.' {
		i++
		n += digits()
	}
	if n == 0 {
		return false
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '-' || s[i] == '+') {
			i++
		}
		if digits() == 0 {
			return false
		}
	}
	return i == len(s)
}

// special parses the words for values that are not finite, and for true and false.
func special(s []byte) (x float32, ok bool) {
	if len(s) == 0 || len(s) > len("-infinity") {
		return 0, false
	}
	is := func(words ...string) bool {
		for _, w := range words {
			if len(s) == len(w) && bytes.EqualFold(s, []byte(w)) {
				return true
			}
		}
		return false
	}
	switch {
	case is("nan", "+nan", "-nan"):
		return float32(math.NaN()), true
	case is("inf", "+inf", "infinity", "+infinity"):
		return float32(math.Inf(1)), true
	case is("-inf", "-infinity"):
		return float32(math.Inf(-1)), true
	case is("true"):
		return 1, true
	case is("false"):
		return 0, true
	}
	return 0, false
}

// fromBool returns the sample of true or false.
func (s *source) fromBool(yes bool) float32 {
	if yes {
		return s.scaled(1)
	}
	return s.scaled(0)
}

// digitsOf is the number of decimal digits from a unit of time down to a ns.
var digitsOf = map[string]int{"ns": 0, "us": 3, "ms": 6, "s": 9}

// timeOf parses a time: a number of units since 1970, or a text of RFC 3339. A text
// without a zone is UTC. Digits beyond a nanosecond are ignored; a leap second is the
// last nanosecond of its day. ok is false for an invalid time, or outside the years 1678
// to 2261.
func timeOf(text []byte, digits int) (ns int64, ok bool) {
	if isDecimal(text) {
		return decimalTime(text, digits)
	}
	if len(text) < len("2006-01-02T15:04:05") || len(text) > 40 {
		return 0, false
	}
	var room [40]byte
	s := append(room[:0], text...)
	if s[10] == ' ' || s[10] == 't' {
		s[10] = 'T'
	}
	if s[len(s)-1] == 'z' {
		s[len(s)-1] = 'Z'
	}
	leap := s[17] == '6' && s[18] == '0'
	if leap {
		s[17], s[18] = '5', '9'
	}
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil {
		if t, err = time.Parse("2006-01-02T15:04:05.999999999", string(s)); err != nil {
			return 0, false
		}
	}
	sec := t.Unix()
	const most = math.MaxInt64 / 1_000_000_000
	if sec <= -most || sec >= most {
		return 0, false
	}
	if leap {
		return leapSecond(t.UTC())
	}
	return t.UnixNano(), true
}

// leapSecond returns the time of the leap second after t: the last nanosecond of the day,
// so that times do not go back. Leap seconds occur only at the end of a month.
func leapSecond(t time.Time) (ns int64, ok bool) {
	t = t.Truncate(time.Second)
	next := t.Add(time.Second)
	return next.UnixNano() - 1, next.Day() == 1 && t.Day() != 1
}

// decimalTime multiplies a decimal by ten to the power of digits, exactly.
func decimalTime(text []byte, digits int) (ns int64, ok bool) {
	negative := text[0] == '-'
	if text[0] == '-' || text[0] == '+' {
		text = text[1:]
	}
	shift := digits
	if at := bytes.IndexAny(text, "eE"); at >= 0 {
		e, err := strconv.Atoi(string(bytes.TrimPrefix(text[at+1:], []byte("+"))))
		if err != nil || e > 100 || e < -100 {
			return 0, false
		}
		shift += e
		text = text[:at]
	}
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	// The number's digits without its point end at 10^-len(fraction): the digits up to
	// keep are at or above a nanosecond.
	keep := len(whole) + shift
	var n uint64
	for i := 0; i < keep; i++ {
		var d byte
		switch {
		case i < len(whole):
			d = whole[i] - '0'
		case i-len(whole) < len(fraction):
			d = fraction[i-len(whole)] - '0'
		}
		if n > (math.MaxInt64-uint64(d))/10 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), int64(n) != codec.NoTime
}
