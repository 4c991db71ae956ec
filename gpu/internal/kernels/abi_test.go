package kernels

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestABI compares the Go structs with the assertions of abi.h: every field, in
// order.
func TestABI(t *testing.T) {
	header, err := os.ReadFile("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^(SIZE|OFFSET)\((.*)\);`).FindAllStringSubmatch(string(header), -1) {
		want = append(want, strings.ReplaceAll(m[2], "_", ""))
	}
	var got []string
	for _, v := range []any{Run{}, member{}, block{}, tile{}, Shape{}, Bank{}, Args{}} {
		typ := reflect.TypeOf(v)
		name := strings.ToUpper(typ.Name()[:1]) + typ.Name()[1:]
		got = append(got, fmt.Sprintf("%s, %d", name, typ.Size()))
		for i := range typ.NumField() {
			if f := typ.Field(i); f.Name != "_" {
				got = append(got, fmt.Sprintf("%s, %s, %d", name, strings.ToLower(f.Name), f.Offset))
			}
		}
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("Go has\n%s\nabi.h asserts\n%s", a, b)
	}
}
