package sparkplug

import "google.golang.org/protobuf/encoding/protowire"

// quality is the value of a metric's property Quality. The specification has three numbers: 192
// (good), 0 (bad) and 500 (stale).
type quality uint8

const (
	good    quality = iota // or without the property
	notGood                // bad, stale, or a number outside the specification
	noNumber
)

const goodNumber = 192

// qualityOf finds the property in a set of properties, which has keys and values in the same
// order.
func qualityOf(set []byte) (quality, error) {
	index, n := -1, 0
	err := visitFields(set, func(num protowire.Number, v field) error {
		if num != 1 {
			return nil
		}
		if string(v.b) == "Quality" {
			index = n
		}
		n++
		return v.expectType("key of a property", protowire.BytesType)
	})
	if err != nil || index < 0 {
		return good, err
	}
	found, n := noNumber, 0
	err = visitFields(set, func(num protowire.Number, v field) (err error) {
		if num != 2 {
			return nil
		}
		if n == index {
			found, err = qualityIn(v.b)
		}
		n++
		return err
	})
	return found, err
}

// qualityIn decodes the value of the property: an integer of 32 or 64 bits.
func qualityIn(value []byte) (quality, error) {
	found := noNumber
	err := visitFields(value, func(num protowire.Number, v field) error {
		if num != 3 && num != 4 {
			return nil
		}
		if found = notGood; v.n == goodNumber {
			found = good
		}
		return v.expectType("value of a property", protowire.VarintType)
	})
	return found, err
}
