package classify

import (
	"context"
	"math"
	"strings"
	"testing"
)

// TestScaleStandsAlone trains on the same two waves in units from 1e-15 to 1e9, on
// large offsets, and next to channels of other sizes: the network sees each wave
// with a deviation of one.
func TestScaleStandsAlone(t *testing.T) {
	for _, c := range []struct {
		name         string
		size, offset float64
	}{
		{"pico", 1e-12, 0}, {"femto", 1e-15, 0}, {"giga", 1e9, 0},
		{"pressure", .02, 101325}, {"position", 1e-5, 48.137154}, {"on a femto offset", 1e-15, 1e-14},
	} {
		series, labels := waves(40)
		for _, s := range series {
			for i := 0; i < len(s); i += 2 {
				s[i], s[i+1] = float32(c.offset+c.size*float64(s[i])), 1e6*s[i+1]
			}
		}
		m, err := Train(context.Background(), smallBank(2), series, labels)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		in := m.Training.Inputs[0]
		if scaled := float64(m.Network.Norm.Scale[0]) * in.Deviation; math.Abs(scaled-1) > 1e-6 {
			t.Errorf("%s: a deviation of %v has scale %v", c.name, in.Deviation, m.Network.Norm.Scale[0])
		}
		if diff := m.Network.Norm.Diff[0]; diff == 0 {
			t.Errorf("%s: differences are left out", c.name)
		}
		all, err := Features(context.Background(), m.Network, series)
		if err != nil {
			t.Fatal(err)
		}
		right, scores := 0, make([]float32, 1)
		for i := range series {
			f := m.Readouts[0].Features()
			m.Readouts[0].Scores(scores, all[i*f:(i+1)*f])
			if m.Readouts[0].Classes[map[bool]int{true: 1}[scores[0] > 0]] == labels[i] {
				right++
			}
		}
		if right < 38 {
			t.Errorf("%s: %d of 40 series right", c.name, right)
		}
		for _, r := range m.ChannelRemarks() {
			if r.Unused || c.offset < 1 {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
	}
}

// TestConstantChannels: a channel with a constant value, or with two neighbors in
// float32, is omitted, and the model reports the reason.
func TestConstantChannels(t *testing.T) {
	const last = 1e6 + .0625
	for reason, values := range map[string][2]float32{
		"all its training values are 3":      {3, 3},
		"all its training values are 0":      {0, 0},
		"vary by only a few steps":           {1e6, last},
		"a deviation of 1e-20, and 1e-16 is": {1e-20, -1e-20},
	} {
		series, labels := waves(20)
		for _, s := range series {
			for i := 1; i < len(s); i += 2 {
				s[i] = values[i/2%2]
			}
			s[1] = values[1]
		}
		if values[0] == -values[1] { // an exact deviation
			for i, s := range series {
				series[i] = s[:len(s)/4*4]
				series[i][1] = values[0]
			}
		}
		m, err := Train(context.Background(), smallBank(2), series, labels)
		if err != nil {
			t.Fatal(err)
		}
		remarks := m.ChannelRemarks()
		if m.Network.Norm.Scale[1] != 0 || len(remarks) != 1 || remarks[0].Channel != "c1" || !remarks[0].Unused || !strings.Contains(remarks[0].Reason, reason) {
			t.Errorf("%v: scale %v, %+v, want %q", values, m.Network.Norm.Scale[1], remarks, reason)
		}
	}
}
