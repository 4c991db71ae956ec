package kernels

// Buffers are device addresses; doc.go describes their contents.
type Buffers struct {
	Rows, Image, Readouts, Inputs, Runs, Emits, Scores, Work uint64
}

// Launch is one kernel launch.
type Launch struct {
	Kernel int // of Names
	Grid   [3]uint32
	Block  uint32 // threads, one-dimensional
	Shared uint32 // bytes of dynamic shared memory
	Args   Args
}

// choose finds the resident kernels able to run the network.
func (p *Program) choose() {
	h := &p.shape
	stride, inputs := int(h.Stride), int(h.InputsMost)
	weights := (1 + inputs + p.recurrentRows()) * stride
	last := shapeLast<<5 - shapeLast // the five features' flags
	features := int(h.Flags)&last != shapeLast
	for i := range residents {
		v := &residents[i]
		block := v.block(stride)
		if v.features != features || block > v.threads {
			continue
		}
		// Eight samples at a time, if their memory is small compared with the rest.
		for chunk := 8; chunk >= 1; chunk /= 2 {
			staged := chunk * inputs * v.tile
			shared := 4 * (len(tanhWords) + weights + stride*v.tile + staged)
			if shared <= p.device.SharedPerBlock && (chunk == 1 || 4*staged <= 16<<10) {
				p.fits = append(p.fits, fit{firstResident + i, v.tile, block, shared, uint32(chunk)})
				break
			}
		}
	}
}

var tanhWords [16 * 6]uint32

// Launches appends the launches of a batch's round to dst, in order.
func (p *Program) Launches(dst []Launch, at Buffers, b *Batch, round int) []Launch {
	r := &b.Rounds[round]
	runs := b.Runs[r.First : r.First+r.Runs]
	args := Args{
		Rows: at.Rows, Image: at.Image, Inputs: at.Inputs, Readouts: at.Readouts, Scores: at.Scores, Work: at.Work,
		Runs: at.Runs + 24*uint64(r.First), Emits: at.Emits + 4*uint64(r.FirstEmit),
		Shape: p.shape, RunCount: uint32(r.Runs), EmitCount: uint32(r.Emits),
	}
	kernel := scores
	if p.bank != nil {
		args.Bank = p.bank.args
		kernel, dst = mixedScores, p.mixedRound(dst, args)
	} else {
		if p.Resident() {
			dst = p.resident(dst, args)
		} else {
			dst = p.streamed(dst, args, runs)
			args.Step = 1
		}
		dst = append(dst, Launch{finish, [3]uint32{uint32(r.Runs), 1, 1}, finishThreads, 0, args})
	}
	if r.Emits > 0 && p.tiles > 0 {
		dst = append(dst, Launch{kernel, [3]uint32{uint32(blocks(r.Emits, scoresTile)), uint32(p.tiles), 1}, scoresThreads, 0, args})
	}
	return dst
}

// resident uses the widest tile that gives every multiprocessor a block, or
// else the narrowest tile.
func (p *Program) resident(dst []Launch, args Args) []Launch {
	f := &p.fits[0]
	for i := range p.fits {
		f = &p.fits[i]
		if blocks(int(args.RunCount), f.tile)*int(p.shape.Members) >= p.device.Multiprocessors {
			break
		}
	}
	args.Chunk = f.chunk
	return append(dst, Launch{f.kernel, [3]uint32{uint32(blocks(int(args.RunCount), f.tile)), p.shape.Members, 1}, uint32(f.block), uint32(f.shared), args})
}

// streamed makes one launch for each sample. Runs are sorted, so runs with
// samples left come first.
func (p *Program) streamed(dst []Launch, args Args, runs []Run) []Launch {
	active := len(runs)
	for t := uint32(0); ; t++ {
		for active > 0 && runs[active-1].Count <= t {
			active--
		}
		if active == 0 {
			return dst
		}
		v, kernel := p.streamedKernel(active)
		args.RunCount, args.Step = uint32(active), t
		grid := [3]uint32{uint32(blocks(active, v.tile)), uint32(blocks(int(p.shape.Units), v.units)), p.shape.Members}
		dst = append(dst, Launch{kernel, grid, uint32(v.threads), 0, args})
	}
}

// streamedKernel returns the kernel for a number of runs: the widest tile that
// gives every multiprocessor a block, or else the narrowest tile.
func (p *Program) streamedKernel(active int) (v *streamed, kernel int) {
	first := firstResident + len(residents)
	if p.products != Canonical {
		i := int(p.products - TF32x3)
		return &tensors[i], first + len(streameds) + i
	}
	for i := range streameds {
		v, kernel = &streameds[i], first+i
		if blocks(active, v.tile)*blocks(int(p.shape.Units), v.units)*int(p.shape.Members) >= p.device.Multiprocessors {
			break
		}
	}
	return v, kernel
}

func blocks(n, tile int) int { return (n + tile - 1) / tile }
