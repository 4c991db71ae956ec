package codec

import "fmt"

// Kinds of field types: the union Type of the format, in its order.
const (
	typeNull = iota + 1
	typeInt
	typeFloatingPoint
	typeBinary
	typeUtf8
	typeBool
	typeDecimal
	typeDate
	typeTime
	typeTimestamp
	typeInterval
	typeList
	typeStruct
	typeUnion
	typeFixedSizeBinary
	typeFixedSizeList
	typeMap
	typeDuration
	typeLargeBinary
	typeLargeUtf8
	typeLargeList
	typeRunEndEncoded
	typeBinaryView
	typeUtf8View
	typeListView
	typeLargeListView
)

var typeNames = [...]string{
	"an unknown type", "null", "int", "float", "binary", "utf8", "bool", "decimal", "date", "time", "timestamp",
	"interval", "list", "struct", "union", "fixed_size_binary", "fixed_size_list", "map", "duration", "large_binary",
	"large_utf8", "large_list", "run_end_encoded", "binary_view", "utf8_view", "list_view", "large_list_view",
}

// number is a numeric element type; notNumber is every other type.
type number uint8

const (
	notNumber number = iota
	int8s
	uint8s
	int16s
	uint16s
	int32s
	uint32s
	int64s
	uint64s
	float16s
	float32s
	float64s
	bools // true is 1, false 0
)

var numberNames = [...]string{"", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool"}

// size returns the bytes of the given number of elements.
func (n number) size(elements int) int {
	if n == bools {
		return (elements + 7) / 8
	}
	return elements * n.width()
}

// width returns the size of one element in bytes; not of bools, which are bits.
func (n number) width() int {
	switch n {
	case int8s, uint8s:
		return 1
	case int16s, uint16s, float16s:
		return 2
	case int32s, uint32s, float32s:
		return 4
	}
	return 8
}

// dataType is the part of a field's type that the codec distinguishes.
type dataType struct {
	kind uint8
	num  number // kind Int, FloatingPoint or Bool: the number; List or FixedSizeList: of its elements
	size int    // FixedSizeList: elements per row
	unit int16  // Timestamp: 0 s, 1 ms, 2 us, 3 ns

	dictionary bool // values are in dictionary batches of this id, rows hold indices
	id         int64
	index      number
}

// is reports whether the type is plain (not dictionary-encoded) of the given kind.
func (t dataType) is(kind uint8) bool { return t.kind == kind && !t.dictionary }

// scalar is the numeric type of a plain numeric field.
func (t dataType) scalar() number {
	if t.is(typeInt) || t.is(typeFloatingPoint) || t.is(typeBool) {
		return t.num
	}
	return notNumber
}

// String names the type as Arrow's implementations print it.
func (t dataType) String() string {
	s := typeNames[0]
	if int(t.kind) < len(typeNames) {
		s = typeNames[t.kind]
	}
	switch t.kind {
	case typeInt, typeFloatingPoint:
		if t.num != notNumber {
			s = numberNames[t.num]
		}
	case typeTimestamp:
		s = "timestamp[" + [...]string{"s", "ms", "us", "ns"}[t.unit&3] + "]"
	case typeList:
		if t.num != notNumber {
			s = fmt.Sprintf("list<%s>", numberNames[t.num])
		}
	case typeFixedSizeList:
		elem := numberNames[t.num]
		if t.num == notNumber {
			elem = "another type"
		}
		s = fmt.Sprintf("fixed_size_list<%s>[%d]", elem, t.size)
	}
	if t.dictionary {
		s = fmt.Sprintf("dictionary<%s, %s>", numberNames[t.index], s)
	}
	return s
}

// buffers returns the number of a field's own buffers in a record batch; views
// reports that a variable number follows, counted elsewhere.
func (t dataType) buffers(dense bool) (n int, views bool) {
	switch {
	case t.dictionary:
		return 2, false
	case t.kind == typeNull, t.kind == typeRunEndEncoded:
		return 0, false
	case t.kind == typeStruct, t.kind == typeFixedSizeList, t.kind == typeUnion && !dense:
		return 1, false
	case t.kind == typeBinary, t.kind == typeUtf8, t.kind == typeLargeBinary, t.kind == typeLargeUtf8,
		t.kind == typeListView, t.kind == typeLargeListView:
		return 3, false
	case t.kind == typeBinaryView, t.kind == typeUtf8View:
		return 2, true
	}
	return 2, false // validity and values, or validity and offsets
}
