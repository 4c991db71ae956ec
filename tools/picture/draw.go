package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/machine"
)

// Places, in pixels.
const (
	width, height = 1000, 536
	left, right   = 104, 16
	top           = 74
	strip, gap    = 66, 8  // of a sensor
	band, between = 24, 10 // of the predictions
	bands         = top + channel*(strip+gap) + 20
)

var classColor = map[string]string{"healthy": "#009E73", "imbalance": "#E69F00", "inner-race": "#CC79A7", "outer-race": "#D55E00"}

var integrityColor = map[string]string{"complete": "#E2E8F0", "held": "#FDE68A", "unlike-training": "#FCA5A5"}

const ink, quiet, alarm = "#0F172A", "#475569", "#B91C1C"

// canvas is an SVG under construction.
type canvas struct {
	text    bytes.Buffer
	samples int // of the whole width
}

func (c *canvas) appendText(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

// x returns the position of a sample.
func (c *canvas) x(sample int) float64 {
	return left + float64(float64(width-left-right)*float64(sample)/float64(c.samples))
}

func (c *canvas) box(from, to int, y, h int, fill string) {
	c.appendText(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, c.x(from), y, c.x(to)-c.x(from), h, fill)
}

func (c *canvas) write(x float64, y int, anchor, fill, text string) {
	c.appendText(`<text x="%.1f" y="%d" text-anchor="%s" fill="%s">%s</text>`, x, y, anchor, fill, text)
}

// draw draws the picture.
func (m *shownMachine) draw() []byte {
	c := &canvas{samples: m.samples()}
	c.appendText(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="13">`, width, height)
	c.appendText(`<title>Three vibration sensors of a simulated machine, and what the stage says of them</title>`)
	c.appendText(`<rect width="%d" height="%d" rx="8" fill="#FFFFFF"/>`, width, height)
	c.appendText(`<text x="16" y="28" font-size="17" font-weight="bold" fill="%s">A simulated machine, %.1f seconds: its sensors, and what eusn-stream says</text>`, ink, float64(m.samples())/machine.DefaultRate)
	for k, name := range m.channels {
		m.drawSensor(c, k, name)
	}
	m.drawEvents(c)
	m.drawBands(c)
	m.drawAxis(c)
	c.appendText(`</svg>`)
	return c.text.Bytes()
}

// drawSensor draws a channel: in each column of pixels the range between its least and
// largest value.
func (m *shownMachine) drawSensor(c *canvas, k int, name string) {
	y := top + k*(strip+gap)
	c.box(0, m.samples(), y, strip, "#F8FAFC")
	c.write(left-10, y+strip/2, "end", ink, name)
	c.appendText(`<text x="%d" y="%d" text-anchor="end" fill="%s" font-size="11">m/s²</text>`, left-10, y+strip/2+15, quiet)
	var largest float32
	for i := range m.samples() {
		if v := m.values[i*channel+k]; v == v {
			largest = max(largest, v, -v)
		}
	}
	place := func(v float32) float64 {
		return float64(y) + strip/2 - float64(float64(v/largest)*(strip/2-2))
	}
	var path strings.Builder
	const perColumn = 4
	for from := 0; from < m.samples(); from += perColumn {
		var low, high float32
		seen := false
		for i := from; i < min(from+perColumn+1, m.samples()); i++ { // including the first sample of the next column, so that lines meet
			v := m.values[i*channel+k]
			if v != v {
				continue
			}
			if !seen {
				low, high, seen = v, v, true
			}
			low, high = min(low, v), max(high, v)
		}
		if seen {
			fmt.Fprintf(&path, "M%.1f %.1fV%.1f", c.x(from+perColumn/2), place(high)-0.4, place(low)+0.4)
		}
	}
	c.appendText(`<path d="%s" stroke="#334155" stroke-width="0.9" fill="none"/>`, path.String())
}

// drawEvents marks the faults of the machine's sensors and of the worker.
func (m *shownMachine) drawEvents(c *canvas) {
	mark := func(from, to, k int, color, text string) {
		y := top + k*(strip+gap)
		c.appendText(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="none" stroke="%s" stroke-width="1.5"/>`, c.x(from), y, c.x(to)-c.x(from), strip, color)
		c.appendText(`<text x="%.1f" y="%d" text-anchor="middle" fill="%s" font-size="12">%s</text>`, c.x((from+to)/2), y+15, color, text)
	}
	mark(stuckFrom, stuckTo, stuckChan, alarm, "sensor stuck")
	mark(missFrom, missTo, missChan, "#92400E", "")
	c.write(c.x((missFrom+missTo)/2), top-7, "middle", "#92400E", "values missing: filled in (held)")
	c.appendText(`<path d="M%.1f %dV%d" stroke="%s" stroke-width="1.5" stroke-dasharray="5 4"/>`, c.x(killed), top-14, bands+4*(band+between)-between, ink)
	c.write(c.x(killed), top-20, "middle", ink, "worker killed and started again: no prediction is lost or made twice")
}

// drawBands draws the true states and the predictions of the stage.
func (m *shownMachine) drawBands(c *canvas) {
	y := bands
	next := func(name string) int {
		c.write(left-10, y+band/2+5, "end", ink, name)
		y += band + between
		return y - band - between
	}
	at, from := next("simulated"), 0
	for _, p := range life {
		c.box(from, from+p.samples, at, band, classColor[p.class])
		c.write(c.x(from+p.samples/2), at+17, "middle", "#FFFFFF", p.class)
		from += p.samples
	}
	m.drawStretches(c, next("predicted"), func(p prediction) (string, string, string) {
		return p.Class, classColor[p.Class], "#FFFFFF"
	})
	m.drawStretches(c, next("integrity"), func(p prediction) (string, string, string) {
		return p.Integrity, integrityColor[p.Integrity], ink
	})
	m.drawStretches(c, next("flags"), func(p prediction) (string, string, string) {
		return p.Flags, "#F8FAFC", alarm
	})
}

// drawStretches draws a cell for each prediction, from the end of the previous prediction
// to its own, and labels equal neighbors if there is room.
func (m *shownMachine) drawStretches(c *canvas, y int, cell func(prediction) (text, fill, color string)) {
	for _, p := range m.predictions {
		_, fill, _ := cell(p)
		c.box(p.end()-hop, p.end(), y, band, fill)
		c.appendText(`<path d="M%.1f %dV%d" stroke="#FFFFFF" stroke-width="1"/>`, c.x(p.end()), y, y+band)
	}
	for i, begin := 0, 0; i < len(m.predictions); i++ {
		p := m.predictions[i]
		text, _, color := cell(p)
		if i+1 < len(m.predictions) {
			if after, _, _ := cell(m.predictions[i+1]); after == text {
				continue
			}
		}
		from := m.predictions[begin].end() - hop
		if begin = i + 1; c.x(p.end())-c.x(from) > 6.7*float64(len(text)) {
			c.write(c.x((from+p.end())/2), y+17, "middle", color, text)
		}
	}
}

// drawAxis labels the seconds and writes the counts.
func (m *shownMachine) drawAxis(c *canvas) {
	y := bands + 4*(band+between) + 6
	for tenth := 0; tenth*machine.DefaultRate/5 <= m.samples(); tenth++ {
		sample := tenth * machine.DefaultRate / 5
		c.appendText(`<text x="%.1f" y="%d" text-anchor="middle" fill="%s" font-size="11">%.1f s</text>`, c.x(sample), y, quiet, float64(tenth)/5)
	}
	right, between, stuck, stuckWrong, wrong := 0, 0, 0, 0, 0
	for _, p := range m.predictions {
		end, flagged := p.end(), p.Integrity == "unlike-training"
		if flagged {
			stuck++
		}
		switch {
		case p.Class == m.label[end-1]:
			right++
		case m.label[end-2*hop] != m.label[end-1]:
			between++
		case flagged:
			stuckWrong++
		default:
			wrong++
		}
	}
	c.write(16, y+28, "start", quiet, fmt.Sprintf("%d predictions, one every %d samples, each from the last %d. %d name the simulated state; of the others, %d fall on a change of state.",
		len(m.predictions), hop, 2*hop, right, between))
	c.write(16, y+46, "start", quiet, fmt.Sprintf("%d rest on the stuck sensor, and say so (flat): %d of these are wrong. %d are wrong without a sign.",
		stuck, stuckWrong, wrong))
	c.write(16, y+64, "start", quiet, "From a run of the program, not a drawing by hand: make picture repeats it.")
}
