package modbus

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the messages about wrong settings and devices to testdata/wrong.txt")

// wrongSettings are invalid settings for the channels x and y.
var wrongSettings = []struct{ name, value string }{
	{"modbus", "plc"}, {"modbus", ":502"}, {"modbus", "tcp://plc:502"}, {"modbus", "plc:0"}, {"modbus", "plc:modbus"},
	{"modbus", "plc:502, plc:502"}, {"modbus", "plc:502,"}, {"modbus", "plc:502, other:502"},
	{"p/y", "other:502/coil:2"}, {"p/y of two servers", "b:502/coil:2"},
	{"unit", "256"}, {"interval", "0s"},
	{"registers", ""}, {"x", "holding:1:int16"}, {"p/x", "holding:1:int16"}, {"p/z", "holding:1:int16"}, {"a b/x", "holding:1:int16"},
	{"p/y", "holding:1"}, {"p/y", "40101:int16"}, {"p/y", "holding:40101:float33"}, {"p/y", "holding:400101:int16"}, {"p/y", "holding:65535:float32"}, {"p/y", "coil:3:int16"},
	{"p/y", "holding:1:int16:abdc"}, {"p/y", "300/holding:1:int16"}, {"p/y", "holding:1:int16 * 0"}, {"p/y", "holding:1:int16*0.1"}, {"p/y", "holding:1:int16 * 0.1 * 2"}, {"p/y", "holding:-1:int16"},
}

func describeWrong(name, value string) string {
	o := Options{Addr: "plc:502", Unit: 1, Channels: []string{"x", "y"}, Interval: time.Second, Timeout: time.Second, Registers: map[string]string{"p/x": "coil:1", "p/y": "coil:2"}}
	switch name {
	case "modbus":
		o.Addr = value
	case "unit":
		fmt.Sscan(value, &o.Unit)
	case "interval":
		o.Interval = 0
	case "registers":
		o.Registers = nil
	case "p/y of two servers":
		o.Addr, o.Registers["p/y"] = "a:502, b:502", value
	case "p/y":
		o.Registers[name] = value
	default:
		o.Registers = map[string]string{name: value}
	}
	if _, err := newClients(newBook(), o); err != nil {
		return err.Error()
	}
	return "TAKEN"
}

// The messages for each wrong setting and each fault of a device are in testdata/wrong.txt,
// reviewed.
func TestWrong(t *testing.T) {
	messages := make([]string, len(faults))
	t.Run("devices", func(t *testing.T) {
		for i, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				messages[i] = provokeFault(t, f.answer, f.wrap)
			})
		}
	})
	var all bytes.Buffer
	for _, w := range wrongSettings {
		fmt.Fprintf(&all, "%s: %s\n   %s\n\n", w.name, w.value, describeWrong(w.name, w.value))
	}
	for i, f := range faults {
		fmt.Fprintf(&all, "a device: %s\n   %s\n\n", f.name, messages[i])
	}
	path := filepath.Join("testdata", "wrong.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, all.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, all.Bytes()) || bytes.Contains(want, []byte("TAKEN")) {
		t.Errorf("%s differs from the current messages (%v); review both after: go test ./internal/gateway/modbus -run TestWrong -update\n%s", path, err, all.Bytes())
	}
}
