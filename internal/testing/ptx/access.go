package ptx

import "strings"

// memory compiles loads and stores; nil for unsupported opcodes. Supported: ld and st, of
// spaces global (also by generic addresses, which are equal here), shared and param, of
// elements of 4 or 8 bytes, single or in vectors.
func (p *parser) memory(op string, o []operand) func(w *warp, mask uint32) {
	parts := strings.Split(op, ".")
	if parts[0] != "ld" && parts[0] != "st" || len(parts) < 2 {
		return nil
	}
	store := parts[0] == "st"
	parts = parts[1:]
	space := "generic"
	switch parts[0] {
	case "global", "shared", "param":
		space, parts = parts[0], parts[1:]
	}
	if len(parts) > 1 && parts[0] == "nc" && space == "global" && !store {
		parts = parts[1:]
	}
	lanes := 1
	if len(parts) > 1 && (parts[0] == "v2" || parts[0] == "v4") {
		lanes, parts = int(parts[0][1]-'0'), parts[1:]
	}
	if len(parts) != 1 || len(o) != 2 {
		return nil
	}
	bytes := map[string]int{"u8": 1, "b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8}[parts[0]]
	if bytes == 0 || bytes == 1 && space != "param" || bytes*lanes > 16 || store && space == "param" {
		return nil
	}
	address, value := o[1], o[0]
	if store {
		address, value = value, address
	}
	if address.kind != isAddress {
		p.fail("%s needs an address in brackets", op)
	}
	values := []operand{value}
	if value.kind == isVector {
		values = value.vector
	}
	if len(values) != lanes {
		p.fail("%s of %d values, want %d", op, len(values), lanes)
	}
	c := word
	if bytes == 8 {
		c = long
	}
	a := access{store: store, wide: bytes == 8, offset: address.value}
	// A load may widen: its register has 64 bits, the element 32.
	if v := values[0]; !store && bytes <= 4 && parts[0] != "s32" && v.kind == isRegister && v.reg.class == long {
		c, a.extend = long, true
	}
	for _, v := range values {
		if store {
			a.regs = append(a.regs, 32*p.inputRegister(v, c))
		} else {
			a.regs = append(a.regs, 32*p.outputRegister(v, c))
		}
	}
	if address.base {
		a.base = 32 * address.reg.index
	} else {
		a.base, a.offset = 32*p.constant(long, address.value), 0
	}
	switch space {
	case "param":
		return a.param(bytes, p.k.ParamBytes)
	case "shared":
		return a.runShared
	}
	return a.runGlobal
}

// param is a load from the parameter. Its address is 0 for the kernel.
func (a *access) param(bytes, size int) func(w *warp, mask uint32) {
	return func(w *warp, mask uint32) {
		for i := 0; i < 32; i++ {
			if mask>>i&1 == 0 {
				continue
			}
			addr := w.l[a.base+i] + a.offset
			end := addr + uint64(bytes*len(a.regs))
			if end > uint64(size) || end < addr {
				w.trap(i, "parameter byte %d of %d", addr, size)
			}
			if addr%uint64(bytes*len(a.regs)) != 0 {
				w.trap(i, "parameter byte %d is misaligned", addr)
			}
			for _, reg := range a.regs {
				v := uint64(0)
				for k := range bytes {
					v |= uint64(w.b.params[int(addr)+k]) << (8 * k)
				}
				if a.wide || a.extend {
					w.l[reg+i] = v
				} else {
					w.r[reg+i] = uint32(v)
				}
				addr += uint64(bytes)
			}
		}
	}
}
