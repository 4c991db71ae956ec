package integration

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestFormatsLiveAndOffline: the same series as Arrow, JSON, CSV, line protocol and plain
// numbers give the predictions of the offline evaluation, bit for bit.
func TestFormatsLiveAndOffline(t *testing.T) {
	spec, err := reservoir.Bank("tiny", 2)
	if err != nil {
		t.Fatal(err)
	}
	d, err := machine.Simulate(t.Context(), machine.Options{Train: 160, Test: 8}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec.Channels = len(d.Channels)
	m, _, err := offline.Retrain(t.Context(), d, offline.RetrainOptions{Spec: spec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := offline.Evaluate(t.Context(), m, d, offline.EvaluateOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, nested := len(m.Channels), map[string]string{}
	for _, name := range m.Channels {
		nested[name] = fmt.Sprintf("$.values[%q]", name)
	}
	// lines writes a line for each row, with a cell for each channel's number.
	lines := func(header, before string, cell func(channel, number string) string) func(int, []float32) []byte {
		return func(rows int, x []float32) []byte {
			s := header
			for ; len(x) > 0; x = x[c:] {
				var cells []string
				for i, v := range x[:c] {
					cells = append(cells, cell(m.Channels[i], fmt.Sprint(v)))
				}
				s += before + strings.Join(cells, ",") + "\n"
			}
			return []byte(s)
		}
	}
	for _, w := range []struct {
		name  string
		in    formats.Input
		write func(rows int, x []float32) []byte
	}{
		{"arrow", formats.Input{Format: formats.Auto}, asArrow(t, m.Channels)},
		{"json", formats.Input{Format: formats.JSON, Channels: nested}, func(rows int, x []float32) []byte {
			columns := map[string][]float32{}
			for i, v := range x {
				columns[m.Channels[i%c]] = append(columns[m.Channels[i%c]], v)
			}
			body, err := json.Marshal(map[string]any{"values": columns})
			if err != nil {
				t.Fatal(err)
			}
			return body
		}},
		{"csv", formats.Input{Format: formats.CSV}, lines(strings.Join(m.Channels, ",")+"\n", "", func(_, number string) string { return number })},
		{"influx", formats.Input{Format: formats.Influx}, lines("", "machine,site=a ", func(channel, number string) string { return channel + "=" + number })},
		{"raw", formats.Input{Format: formats.Raw, RawType: "f32be"}, func(_ int, x []float32) (b []byte) {
			for _, v := range x {
				b = binary.BigEndian.AppendUint32(b, math.Float32bits(v))
			}
			return b
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			got, _, _ := live(t, m, d, d.Part(archive.Test), w.in, w.write)
			for _, want := range ev.Predictions {
				p := got[want.ID]
				if p.Class != want.Class || p.Flags != want.Flags || math.Float32bits(p.Probability) != math.Float32bits(want.Probability) || !slices.Equal(p.Scores, want.Scores) {
					t.Errorf("%s: live %+v, offline %+v", want.ID, p, want)
				}
			}
		})
	}
}
