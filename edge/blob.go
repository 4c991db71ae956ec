package edge

import (
	"encoding/binary"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// blob returns the model in the format of c/wasm.c: little-endian words.
func (x *export) blob() ([]byte, error) {
	test, err := x.selftest()
	if err != nil {
		return nil, err
	}
	s, l, h := x.net.Spec, x.layout, x.readout
	w := x.weights()
	var b []byte
	word := func(all ...int) {
		for _, v := range all {
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
		}
	}
	flag := func(v bool) int {
		if v {
			return 1
		}
		return 0
	}
	floats := func(all ...[]float32) {
		for _, values := range all {
			for _, v := range values {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
		}
	}
	shorts := func(values []int32) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		}
		if len(values)%2 == 1 {
			b = binary.LittleEndian.AppendUint16(b, 0)
		}
	}
	word(flag(x.mixed()), s.Channels, len(h.Classes), h.Columns(), l.Words, s.Inputs(), s.Members, s.FeatureCount(), l.First,
		flag(s.Standardize), flag(s.Difference), max(0, l.Previous), flag(h.Limit != nil))
	var m engine.MixedLayout
	if x.mixed() {
		m = *l.Mixed
	}
	word(m.Ring, m.Signs, s.Taps.MaxLag, s.Taps.Members, activation(s))
	word(s.Units, l.MemberWords, flag(s.Kind == reservoir.RESN), l.SumLow, l.SumHigh, l.Positive, l.Max, l.SquareLow, l.SquareHigh, featureBits(s))
	word(selftestSamples, len(w.inputs), len(w.lags), len(w.recurrent), len(w.input), int(int32(math.Float32bits(test.probability))))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(h.Temperature))
	floats([]float32{canon.Saturation, canon.TanhShift, canon.CubicFactor}, tanhTable(), x.net.Norm.Mean, x.net.Norm.Scale, x.net.Norm.Diff)
	shorts(w.counts)
	shorts(w.inputs)
	shorts(w.lags)
	floats(w.recurrent, w.input, w.bias, w.keepGain, h.Center, h.Limit, h.Weights, h.Intercept, test.low, test.step, test.scores)
	return b, nil
}
