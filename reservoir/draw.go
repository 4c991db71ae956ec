package reservoir

import (
	"errors"
	"math"
	"slices"
)

// golden is a constant of the generator, which the package's documentation,
// doc.go, describes, so that another program can redraw every weight.
const golden = 0x9e3779b97f4a7c15

// Tensor numbers in the key.
const (
	tensorScales = iota
	tensorRecurrent
	tensorInput
	tensorBias
	tensorSubset
)

// Index of each scale in the tensorScales sequence.
const (
	scaleEps = iota
	scaleGamma
	scaleRecurrent // also eps_rho
	scaleInput
	scaleBias
	scaleRadius
	scaleLeak
)

// source is the sequence of one (seed, member, tensor).
type source uint64

func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

func newSource(seed uint64, member, tensor int) source {
	return source(mix(mix(seed) + 16*uint64(member) + uint64(tensor)))
}

func (s source) bits(k int) uint64 {
	step := (uint64(k) + 1) * golden
	return mix(uint64(s) + step)
}

func (s source) symmetric(k int) float64 {
	i := int64(s.bits(k) >> 40)
	return float64(2*i+1-1<<24) / (1 << 24)
}

func (s source) scale(k int, d Dist) float64 {
	if d.Lo == d.Hi {
		return d.Lo
	}
	a, b := d.Lo, d.Hi
	for i, bit := s.bits(k)>>40, 23; bit >= 0; bit-- {
		if m := math.Sqrt(a * b); i>>bit&1 == 1 {
			a = m
		} else {
			b = m
		}
	}
	return math.Sqrt(a * b)
}

// Draw makes the weights of a recipe, completed by WithDefaults, the same on
// every platform. The transform's constants start as the identity (mean 0,
// scale 1); training replaces them, see InputStatistics. A recipe without Input
// is refused: no sample would reach a unit.
func Draw(s Spec) (*Network, error) {
	s = s.WithDefaults()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Input.Hi == 0 {
		return nil, errors.New("reservoir: spec: input: want a positive scale, got 0: no sample would reach a unit; set for example Input: reservoir.Fixed(1)")
	}
	net := &Network{Spec: s, Norm: identityNorm(s.Channels)}
	if s.Kind == Mixed {
		net.Members = drawMixed(s)
		return net, nil
	}
	net.Members = make([]Member, s.Members)
	for r := range net.Members {
		net.Members[r] = drawMember(s, r)
	}
	return net, nil
}

func drawMember(s Spec, r int) Member {
	scales := newSource(s.Seed, r, tensorScales)
	m := Member{Inputs: drawSubset(s, r)}
	round := func(v float64) float32 { return s.Precision.round(float32(v)) }

	n := s.Units
	rec := newSource(s.Seed, r, tensorRecurrent)
	switch s.Kind {
	case EuSN:
		eps, gamma := scales.scale(scaleEps, s.Eps), scales.scale(scaleGamma, s.Gamma)
		w := scales.scale(scaleRecurrent, s.Recurrent)
		if s.EpsRho != (Dist{}) {
			w = scales.scale(scaleRecurrent, s.EpsRho) / eps / (2 * math.Sqrt(2*float64(n)/3))
		}
		m.Keep, m.Gain = 1, float32(eps)
		m.Recurrent = make([]float32, n*n)
		for i := range n {
			m.Recurrent[i*n+i] = round(-gamma)
			for j := range i {
				v := round(w * (rec.symmetric(i*n+j) - rec.symmetric(j*n+i)))
				m.Recurrent[i*n+j], m.Recurrent[j*n+i] = v, -v
			}
		}
	case ESN, RESN:
		leak, radius := scales.scale(scaleLeak, s.Leak), scales.scale(scaleRadius, s.SpectralRadius)
		m.Keep, m.Gain = float32(1-leak), float32(leak)
		if s.Kind == RESN {
			m.Recurrent = slices.Repeat([]float32{round(radius)}, n)
			break
		}
		v := radius / math.Sqrt(float64(n)) * (6 / math.Sqrt(12))
		m.Recurrent = make([]float32, n*n)
		for k := range m.Recurrent {
			m.Recurrent[k] = round(v * rec.symmetric(k))
		}
	}

	in, inScale := newSource(s.Seed, r, tensorInput), scales.scale(scaleInput, s.Input)
	m.Input = make([]float32, 0, n*len(m.Inputs))
	for i := range n {
		for _, c := range m.Inputs {
			m.Input = append(m.Input, round(inScale*in.symmetric(i*s.Inputs()+int(c))))
		}
	}
	bias, biasScale := newSource(s.Seed, r, tensorBias), scales.scale(scaleBias, s.Bias)
	m.Bias = make([]float32, n)
	for i := range m.Bias {
		m.Bias[i] = round(biasScale * bias.symmetric(i))
	}
	return m
}

// drawSubset picks the inputs of a member: all inputs or, if Subset is set and
// there are more than 3, floor of a log-uniform draw in
// [1, min(Inputs, Subset)+1) inputs: a partial Fisher-Yates shuffle whose
// swap k goes to k + (bits(k+1)>>32 * (Inputs-k)) >> 32, then sorted.
func drawSubset(s Spec, r int) []int32 {
	inputs := shuffleInputs(s, r)
	slices.Sort(inputs)
	return inputs
}

// shuffleInputs is drawSubset before sorting.
func shuffleInputs(s Spec, r int) []int32 {
	inputs := make([]int32, s.Inputs())
	for i := range inputs {
		inputs[i] = int32(i)
	}
	if s.Subset == 0 || len(inputs) <= 3 {
		return inputs
	}
	src := newSource(s.Seed, r, tensorSubset)
	most := min(len(inputs), s.Subset)
	count := min(int(src.scale(0, Dist{1, float64(most + 1)})), most)
	for k := range count {
		j := k + int(src.bits(k+1)>>32*uint64(len(inputs)-k)>>32)
		inputs[k], inputs[j] = inputs[j], inputs[k]
	}
	return inputs[:count:count]
}

// round limits a weight's mantissa; odd, so antisymmetry stays exact.
func (p Precision) round(v float32) float32 {
	if p != TF32 {
		return v
	}
	const drop = 13 // 23 - 10 mantissa bits
	u := math.Float32bits(v)
	u += 1<<(drop-1) - 1 + u>>drop&1
	return math.Float32frombits(u &^ (1<<drop - 1))
}
