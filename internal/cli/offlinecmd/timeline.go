package offlinecmd

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline"
)

// Places in a picture of alarms, in pixels.
const (
	timelineWidth = 1000
	timelineLeft  = 170
	timelineRight = 976
	timelineTop   = 72
	classRow      = 16 // height of a stream with classes
	numberRow     = 64 // height of a stream with numbers
	alarmBar      = 6
	rowGap        = 6
	mostClassRows = 32
	mostNumbers   = 8
	mostStream    = 20 // characters of a stream's name
)

// Colors distinguishable with color-blindness (Okabe and Ito).
const (
	faultColor, alarmColor   = "#E69F00", "#0072B2"
	valueColor, truthColor   = "#0072B2", "#E69F00"
	timelineInk, timelineDim = "#0F172A", "#475569"
	healthyColor             = "#E2E8F0"
)

// timeline is a picture of the alarms of recorded predictions, a row for each stream.
type timeline struct {
	text    bytes.Buffer
	rules   alarm.Rules
	numeric bool
	longest int64 // samples of the longest stream
}

// timelineRow has the predictions of a stream and its alarms.
type timelineRow struct {
	stream string
	places []int // in the evaluation
	alarms [][2]int64
}

func (d *timeline) appendText(format string, args ...any) { fmt.Fprintf(&d.text, format+"\n", args...) }

// xOf returns the place of a sample.
func (d *timeline) xOf(position int64) float64 {
	return timelineLeft + float64(timelineRight-timelineLeft)*float64(position)/float64(max(1, d.longest))
}

func (d *timeline) write(x, y float64, anchor, color string, size int, text string) {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text))
	d.appendText(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" font-size="%d">%s</text>`, x, y, anchor, color, size, b.String())
}

func (d *timeline) box(from, to int64, y, height float64, color string) {
	d.appendText(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, d.xOf(from), y, max(1, d.xOf(to)-d.xOf(from)), height, color)
}

// drawTimeline draws the faults of an evaluation, or its numbers, and the alarms. all are the predictions as judged.
func drawTimeline(ev *offline.Evaluation, rules alarm.Rules, all []alarm.Known, events []alarm.Event) []byte {
	d := &timeline{rules: rules, numeric: len(ev.Classes) == 1}
	rows := timelineRows(ev, all, events)
	for i := range ev.Predictions {
		d.longest = max(d.longest, ev.Predictions[i].Position)
	}
	shown, height, most := rows, float64(classRow), mostClassRows
	if d.numeric {
		height, most = numberRow, mostNumbers
	}
	shown = shown[:min(len(shown), most)]
	bottom := timelineTop + float64(len(shown))*(height+rowGap)
	d.appendText(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" font-family="Helvetica, Arial, sans-serif">`, timelineWidth, bottom+30)
	d.appendText("<title>Alarms of recorded predictions</title>")
	d.appendText(`<rect width="%d" height="%.0f" rx="8" fill="#FFFFFF"/>`, timelineWidth, bottom+30)
	d.drawLegend(ev, len(shown), len(rows))
	for i := range shown {
		y := timelineTop + float64(i)*(height+rowGap)
		d.write(timelineLeft-8, y+12, "end", timelineInk, 12, names.Cut(shown[i].stream, mostStream))
		if d.numeric {
			d.drawNumbers(ev, &shown[i], y)
		} else {
			d.drawFaults(all, ev, &shown[i], y)
		}
		for _, a := range shown[i].alarms {
			d.box(a[0], a[1], y+height-alarmBar, alarmBar, alarmColor)
		}
	}
	for k := range int64(5) {
		at := d.longest * k / 4
		d.write(d.xOf(at), bottom+14, "middle", timelineDim, 11, fmt.Sprint(at))
	}
	d.write(timelineLeft-8, bottom+14, "end", timelineDim, 11, "sample")
	d.appendText("</svg>")
	return d.text.Bytes()
}

// drawLegend draws the heading.
func (d *timeline) drawLegend(ev *offline.Evaluation, shown, of int) {
	title := fmt.Sprintf("%s: %d streams", names.Cut(ev.Dataset, 40), of)
	if shown < of {
		title = fmt.Sprintf("%s: %d of %d streams, those with alarms first", names.Cut(ev.Dataset, 40), shown, of)
	}
	d.write(16, 26, "start", timelineInk, 16, title)
	texts := make([]string, len(d.rules))
	for i, r := range d.rules {
		texts[i] = r.Name + ": " + r.Text
	}
	entries := [][2]string{{faultColor, "fault, by its label"}, {healthyColor, "no fault"}, {alarmColor, "alarm (" + names.Cut(strings.Join(texts, "; "), 60) + ")"}}
	if d.numeric {
		entries = [][2]string{{truthColor, "true " + names.Cut(ev.Classes[0], 20)}, {valueColor, "predicted; thick: alarm (" + names.Cut(strings.Join(texts, "; "), 60) + ")"}}
	}
	x := 16.
	for _, e := range entries {
		d.appendText(`<rect x="%.1f" y="40" width="14" height="14" fill="%s"/>`, x, e[0])
		d.write(x+20, 52, "start", timelineInk, 12, e[1])
		x += 36 + 6.6*float64(len(e[1]))
	}
}

// drawFaults draws the stretches of a stream by their labels.
func (d *timeline) drawFaults(all []alarm.Known, ev *offline.Evaluation, row *timelineRow, y float64) {
	d.box(0, ev.Predictions[row.places[len(row.places)-1]].Position, y, classRow-alarmBar, healthyColor)
	var from, to int64 = -1, 0
	end := func() {
		if from >= 0 {
			d.box(from, to, y, classRow-alarmBar, faultColor)
		}
		from = -1
	}
	before := int64(0)
	for _, i := range row.places {
		fault := slices.ContainsFunc(d.rules, func(r *alarm.Rule) bool {
			yes, known := r.IsFault(&all[i])
			return yes && known
		})
		at := ev.Predictions[i].Position
		switch {
		case fault && from < 0:
			from = before
		case !fault:
			end()
		}
		to, before = at, at
	}
	end()
}

// drawNumbers draws true and predicted numbers of a stream.
func (d *timeline) drawNumbers(ev *offline.Evaluation, row *timelineRow, y float64) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, i := range row.places {
		p := &ev.Predictions[i]
		least, most = min(least, float64(p.Number.Value)), max(most, float64(p.Number.Value))
		if p.Truth == p.Truth {
			least, most = min(least, p.Truth), max(most, p.Truth)
		}
	}
	d.box(0, ev.Predictions[row.places[len(row.places)-1]].Position, y, numberRow-alarmBar, "#F8FAFC")
	line := func(color string, value func(p *offline.Prediction) float64) {
		var path strings.Builder
		for _, i := range row.places {
			p := &ev.Predictions[i]
			if v := value(p); v == v {
				step := byte('L')
				if path.Len() == 0 {
					step = 'M'
				}
				fmt.Fprintf(&path, "%c%.1f %.1f", step, d.xOf(p.Position), y+2+(numberRow-alarmBar-4)*(most-v)/max(most-least, 1e-9))
			}
		}
		d.appendText(`<path d="%s" stroke="%s" stroke-width="1.5" fill="none"/>`, path.String(), color)
	}
	line(truthColor, func(p *offline.Prediction) float64 { return p.Truth })
	line(valueColor, func(p *offline.Prediction) float64 { return float64(p.Number.Value) })
	d.write(timelineLeft-8, y+28, "end", timelineDim, 11, fmt.Sprintf("%.4g to %.4g", least, most))
}

// timelineRows returns the streams, those with alarms first.
func timelineRows(ev *offline.Evaluation, all []alarm.Known, events []alarm.Event) (rows []timelineRow) {
	number, at := map[string]int{}, map[string]int64{}
	place := func(stream string, stored int64) string { return fmt.Sprint(stream, " ", stored) }
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		k, known := number[p.ID]
		if !known {
			k = len(rows)
			number[p.ID] = k
			rows = append(rows, timelineRow{stream: p.ID})
		}
		rows[k].places = append(rows[k].places, i)
		at[place(p.ID, all[i].Stored.UnixNano())] = p.Position
	}
	open := map[string]int{} // place of an active alarm in its row, by rule and stream
	for i := range events {
		e := &events[i]
		k, known := number[e.Key]
		key := e.Rule + " " + e.Key
		switch position := at[place(e.Key, e.Time.UnixNano())]; {
		case !known:
		case e.Kind == alarm.Raised:
			if e.Replaces > 0 {
				rows[k].alarms[open[key]][1] = position
			}
			open[key] = len(rows[k].alarms)
			rows[k].alarms = append(rows[k].alarms, [2]int64{position, ev.Predictions[rows[k].places[len(rows[k].places)-1]].Position})
		case e.Kind == alarm.Cleared:
			rows[k].alarms[open[key]][1] = position
		}
	}
	slices.SortStableFunc(rows, func(a, b timelineRow) int { return cmp.Compare(min(1, len(b.alarms)), min(1, len(a.alarms))) })
	return rows
}
