package edge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// number returns the exact C literal of a float32.
func number(v float32) string { return strconv.FormatFloat(float64(v), 'x', -1, 32) + "f" }

// writeArray writes a constant array; an empty array gets an element, as C requires.
func writeArray[T any](x *export, b *strings.Builder, kind, name string, size int, values []T, text func(T) string) {
	fmt.Fprintf(b, "static const %s eusn_%s[%d] = {", kind, name, max(1, len(values)))
	if len(values) == 0 {
		b.WriteString("0")
	}
	for i, v := range values {
		if i%8 == 0 {
			b.WriteString("\n\t")
		}
		b.WriteString(text(v))
		b.WriteString(",")
	}
	b.WriteString("\n};\n")
	x.constants += size * len(values)
}

func (x *export) floats(b *strings.Builder, name string, values []float32) {
	writeArray(x, b, "float", name, 4, values, number)
}

func (x *export) doubles(b *strings.Builder, name string, values []float64) {
	writeArray(x, b, "double", name, 8, values, func(v float64) string { return strconv.FormatFloat(v, 'x', -1, 64) })
}

func (x *export) shorts(b *strings.Builder, name string, values []int32) {
	writeArray(x, b, "uint16_t", name, 2, values, func(v int32) string { return strconv.Itoa(int(v)) })
}

// weights are the weights of all members, concatenated.
type weights struct {
	inputs, lags, counts             []int32 // counts: number of inputs of each member
	recurrent, input, bias, keepGain []float32
}

func (x *export) weights() (w weights) {
	for _, m := range x.net.Members {
		w.inputs, w.lags, w.counts = append(w.inputs, m.Inputs...), append(w.lags, m.Lags...), append(w.counts, int32(len(m.Inputs)))
		w.recurrent, w.input = append(w.recurrent, m.Recurrent...), append(w.input, m.Input...)
		w.bias, w.keepGain = append(w.bias, m.Bias...), append(w.keepGain, m.Keep, m.Gain)
	}
	return w
}

// tanhTable returns canon's table, by power, then interval.
func tanhTable() (table []float32) {
	for _, row := range canon.TanhTable {
		table = append(table, row[:]...)
	}
	return table
}

// writeArrays writes the model's numbers.
func (x *export) writeArrays(b *strings.Builder, t selftest) {
	h, norm, w := x.readout, x.net.Norm, x.weights()
	x.floats(b, "tanh_table", tanhTable())
	x.floats(b, "norm_mean", norm.Mean)
	x.floats(b, "norm_scale", norm.Scale)
	x.floats(b, "norm_diff", norm.Diff)
	if f := x.model.Front; f != nil {
		x.writeRegimes(b, f.Regimes)
	}
	x.shorts(b, "input_count", w.counts)
	x.shorts(b, "inputs", w.inputs)
	x.floats(b, "recurrent", w.recurrent)
	x.floats(b, "input", w.input)
	x.floats(b, "bias", w.bias)
	if x.mixed() {
		x.shorts(b, "lags", w.lags)
	} else {
		x.floats(b, "keep_gain", w.keepGain)
	}
	x.floats(b, "center", h.Center)
	x.floats(b, "limits", h.Limit)
	x.floats(b, "weights", h.Weights)
	x.floats(b, "intercept", h.Intercept)
	if c := h.Coverage; c != nil {
		x.doubles(b, "least", c.Least)
	}
	if v := h.Interval; v != nil {
		fmt.Fprintf(b, "#define EUSN_LOW %s\n#define EUSN_HIGH %s\n", number(v.Low), number(v.High))
		if c := v.Clip; c != nil {
			fmt.Fprintf(b, "#define EUSN_LEAST %s\n#define EUSN_MOST %s\n", number(c[0]), number(c[1]))
		}
	} else {
		b.WriteString("const char *const eusn_classes[EUSN_CLASSES] = {\n")
		for _, class := range h.Classes {
			fmt.Fprintf(b, "\t%s,\n", quoted(class))
		}
		b.WriteString("};\n")
	}
	x.floats(b, "test_low", t.low)
	x.floats(b, "test_step", t.step)
	writeArray(x, b, "uint32_t", "test_scores", 4, t.scores, func(v float32) string { return fmt.Sprintf("0x%08x", math.Float32bits(v)) })
	b.WriteString("\n")
}

// writeRegimes writes the numbers of c/regime.h.
func (x *export) writeRegimes(b *strings.Builder, g *reservoir.Regimes) {
	settings := make([]int32, len(g.Settings))
	for j, c := range g.Settings {
		settings[j] = int32(c)
	}
	x.shorts(b, "settings", settings)
	x.doubles(b, "setting_mean", g.Mean)
	x.doubles(b, "setting_scale", g.Scale)
	x.doubles(b, "regime_centers", slices.Concat(g.Centers...))
	x.floats(b, "regime_means", slices.Concat(g.Means...))
	x.floats(b, "regime_scales", slices.Concat(g.Scales...))
}

// quoted returns the C string literal of a name in UTF-8.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// selftestSamples is more than the capacity of a sum's low level (engine.FoldEvery).
const selftestSamples = 300

// selftest is the self-test of a header: generated samples, and the engine's results
// after them.
type selftest struct {
	low, step   []float32 // per channel: a value is low + k*step, k of 24 bits
	scores      []float32
	probability float32
}

func (x *export) selftest() (selftest, error) {
	var t selftest
	for c := range x.net.Spec.Channels {
		low, high := x.channelRange(c)
		t.low, t.step = append(t.low, low), append(t.step, (high-low)/(1<<24))
	}
	var samples []float32
	random := uint32(1)
	for range selftestSamples {
		for c := range t.low {
			random = random*1664525 + 1013904223
			samples = append(samples, canon.FMA(float32(random>>8), t.step[c], t.low[c]))
		}
	}
	if f := x.model.Front; f != nil {
		f.Run(nil, 0, samples, x.net.Spec.Channels)
	}
	e, err := cpu.New(x.net, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		return t, err
	}
	defer e.Close()
	if err := e.SetReadouts(x.model.Readouts); err != nil {
		return t, err
	}
	scores := make([]float32, e.ScoreWidth())
	if err := e.Advance(samples, []reservoir.Run{{Reset: true, Emit: true, To: selftestSamples}}, scores); err != nil {
		return t, err
	}
	for _, h := range x.model.Readouts {
		if h == x.readout {
			break
		}
		scores = scores[h.Columns():]
	}
	t.scores = scores[:x.readout.Columns()]
	t.probability = x.readout.Probability(scores)
	return t, nil
}

// channelRange returns the range of a channel's training samples, as far as known.
func (x *export) channelRange(channel int) (low, high float32) {
	low, high = -1, 1
	if in := x.model.Training.Inputs; len(in) > 0 && in[channel].Min < in[channel].Max {
		low, high = in[channel].Min, in[channel].Max
	} else if n := x.net.Norm; x.net.Spec.Standardize && n.Scale[channel] > 0 {
		low, high = n.Mean[channel]-2/n.Scale[channel], n.Mean[channel]+2/n.Scale[channel]
	}
	const most = reservoir.MaxInput / 4
	return max(low, -most), min(high, most)
}
