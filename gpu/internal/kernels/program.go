package kernels

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Device holds the properties that decide the launches, but no result.
type Device struct {
	Multiprocessors int
	// SharedPerBlock is the most dynamic shared memory a block may ask for,
	// bytes: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN. At least
	// 48 KiB.
	SharedPerBlock int
}

// Program is one network prepared for a device: its image and its launches.
// Only SetReadouts changes a Program.
type Program struct {
	device Device
	net    *reservoir.Network
	shape  Shape
	image  []uint32
	fits   []fit      // usable resident kernels, most streams first; none: streamed
	bank   *mixedPlan // only of kind mixed, which has no fits
	tiles  int        // of the readouts

	products Products
}

// fit is a resident kernel with the sizes for this network.
type fit struct {
	kernel, tile, block, shared int
	chunk                       uint32
}

// maxImage bounds an image: offsets are 32-bit words.
const maxImage = math.MaxInt32

// New packs a network. The network must not change afterwards.
func New(net *reservoir.Network, device Device) (*Program, error) {
	if err := net.Validate(); err != nil {
		return nil, err
	}
	if device.Multiprocessors < 1 || device.SharedPerBlock < 48<<10 {
		return nil, fmt.Errorf("kernels: device with %d multiprocessors and %d bytes of shared memory a block, want at least 1 and 49152", device.Multiprocessors, device.SharedPerBlock)
	}
	p := &Program{device: device, net: net}
	p.setShape()
	if net.Spec.Kind == reservoir.Mixed {
		if err := p.mixed(); err != nil {
			return nil, err
		}
		return p, nil
	}
	if err := p.pack(); err != nil {
		return nil, err
	}
	p.choose()
	return p, nil
}

func (p *Program) setShape() {
	s, l := &p.net.Spec, engine.LayoutOf(p.net.Spec)
	word := func(at int) uint32 { return uint32(int32(at)) } // -1 is absent
	h := &p.shape
	h.Channels, h.Inputs, h.Members, h.Units = uint32(s.Channels), uint32(s.Inputs()), uint32(s.Members), uint32(s.Units)
	h.Stride = (h.Units + 7) / 8 * 8
	h.RowWords, h.Previous, h.First, h.MemberWords = uint32(l.Words), word(l.Previous), uint32(l.First), uint32(l.MemberWords)
	h.State, h.SumLow, h.SumHigh, h.Positive = word(l.State), word(l.SumLow), word(l.SumHigh), word(l.Positive)
	h.Maximum, h.SquareLow, h.SquareHigh = word(l.Max), word(l.SquareLow), word(l.SquareHigh)
	h.Features = uint32(s.FeatureCount())
	for _, m := range p.net.Members {
		h.InputsMost = max(h.InputsMost, uint32(len(m.Inputs)))
	}
	for _, f := range []struct {
		has  bool
		flag uint32
	}{{s.Kind == reservoir.RESN, shapeRing}, {s.Standardize, shapeStandard}, {s.Difference, shapeDiffer}} {
		if f.has {
			h.Flags |= f.flag
		}
	}
	for i, f := range reservoir.AllFeatures {
		if s.Has(f) {
			h.Flags |= shapeLast << i
		}
	}
}

// header begins the image: tanh table, transform.
func (p *Program) header() {
	norm := &p.net.Norm
	for k := range canon.TanhTable {
		p.floats(canon.TanhTable[k][:])
	}
	p.shape.Norm = uint32(len(p.image))
	p.floats(norm.Mean)
	p.floats(norm.Scale)
	p.floats(norm.Diff)
}

// pack writes the image: header, members, their inputs, their weights.
func (p *Program) pack() error {
	h := &p.shape
	p.header()
	h.MemberTable = uint32(len(p.image))
	size, stride := len(p.image), int(h.Stride)
	members := make([]member, len(p.net.Members))
	size += 8 * len(members)
	for r, m := range p.net.Members {
		members[r] = member{Inputs: uint32(size), Count: uint32(len(m.Inputs)), Keep: m.Keep, Gain: m.Gain}
		size += len(m.Inputs)
	}
	for r, m := range p.net.Members {
		size = (size + 3) / 4 * 4 // rows are read by four
		members[r].Weights = uint32(size)
		if size += (1 + len(m.Inputs) + p.recurrentRows()) * stride; size > maxImage {
			return fmt.Errorf("kernels: the network's weights take more than %d words", maxImage)
		}
	}
	for _, m := range members {
		p.image = append(p.image, m.Inputs, m.Weights, m.Count, math.Float32bits(m.Keep), math.Float32bits(m.Gain), 0, 0, 0)
	}
	for _, m := range p.net.Members {
		for _, c := range m.Inputs {
			p.image = append(p.image, uint32(c))
		}
	}
	p.image = append(make([]uint32, 0, size), p.image...)
	for r, m := range p.net.Members {
		p.image = p.image[:members[r].Weights]
		p.column(m.Bias, 1, 0)
		for c := range m.Inputs {
			p.column(m.Input, len(m.Inputs), c)
		}
		if h.Flags&shapeRing != 0 {
			p.column(m.Recurrent, 1, 0)
			continue
		}
		for k := range p.net.Spec.Units {
			p.column(m.Recurrent, p.net.Spec.Units, k)
		}
	}
	return nil
}

// recurrentRows is how many weight rows of a member meet states.
func (p *Program) recurrentRows() int {
	if p.shape.Flags&shapeRing != 0 {
		return 1
	}
	return int(p.shape.Units)
}

func (p *Program) floats(v []float32) {
	for _, x := range v {
		p.image = append(p.image, math.Float32bits(x))
	}
}

// column appends one weight row: element at of every unit's width values.
func (p *Program) column(v []float32, width, at int) {
	for i := range int(p.shape.Units) {
		p.image = append(p.image, math.Float32bits(v[i*width+at]))
	}
	for i := p.shape.Units; i < p.shape.Stride; i++ {
		p.image = append(p.image, 0)
	}
}

// Image returns the words to upload to Buffers.Image. The caller must not
// change the words.
func (p *Program) Image() []uint32 { return p.image }

// StateWords is the length of a state in words.
func (p *Program) StateWords() int { return int(p.shape.RowWords) }

// ScoreWidth is how many scores an emitting run writes, as set by Readouts.
func (p *Program) ScoreWidth() int { return int(p.shape.ScoreWidth) }

// Resident reports whether one launch takes all samples of a round: weights and
// states fit the device's shared memory or, of kind mixed, its registers.
func (p *Program) Resident() bool { return p.bank != nil || len(p.fits) > 0 }

// WorkBytes returns the size of Buffers.Work for rounds of at most that many runs.
func (p *Program) WorkBytes(runs int) int {
	if p.Resident() {
		return 0
	}
	return 4 * runs * int(p.shape.Members) * int(p.shape.Units)
}
