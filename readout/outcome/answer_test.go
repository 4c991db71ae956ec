package outcome

import (
	"math"
	"reflect"
	"testing"
)

// TestEqualSeesEveryField: two answers differ if a bit of a field differs.
func TestEqualSeesEveryField(t *testing.T) {
	fresh := func() *Answer {
		return &Answer{Scores: []float32{1, 2}, Set: []int32{1}, Inputs: []float32{3}, Novelty: float32(math.NaN())}
	}
	if !fresh().Equal(fresh()) {
		t.Fatal("two equal answers differ")
	}
	var change func(v reflect.Value) bool
	change = func(v reflect.Value) bool {
		switch v.Kind() {
		case reflect.Float32:
			v.SetFloat(float64(math.Float32frombits(math.Float32bits(float32(v.Float())) ^ 1<<31)))
		case reflect.Int32:
			v.SetInt(v.Int() + 1)
		case reflect.Uint32:
			v.SetUint(v.Uint() + 1)
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Slice:
			return change(v.Index(0))
		default:
			return false
		}
		return true
	}
	var fields func(v func(*Answer) reflect.Value)
	fields = func(of func(*Answer) reflect.Value) {
		for i := range of(fresh()).NumField() {
			field := func(a *Answer) reflect.Value { return of(a).Field(i) }
			name := of(fresh()).Type().Field(i).Name
			if field(fresh()).Kind() == reflect.Struct {
				fields(field)
				continue
			}
			b := fresh()
			if !change(field(b)) {
				t.Fatalf("field %s: this test cannot change a %s", name, field(b).Kind())
			}
			if fresh().Equal(b) || b.Equal(fresh()) {
				t.Errorf("field %s: a difference is not seen", name)
			}
		}
	}
	fields(func(a *Answer) reflect.Value { return reflect.ValueOf(a).Elem() })
}
