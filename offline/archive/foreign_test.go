package archive

import (
	"maps"
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
)

// TestForeignArchive reads archives of other tools, correct archives in every page version, and wrong archives.
func TestForeignArchive(t *testing.T) {
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		d, err := archiveBytes(archivetest.Foreign(t, archivetest.SetMeta(), archivetest.SetColumns(), parquet.WithDataPageVersion(version)))
		if err != nil {
			t.Fatal(err)
		}
		sameDataset(t, d, &Dataset{
			Name: "F", Channels: []string{"a", "b"}, Classes: []string{"x", "y"},
			Series: []Series{
				{ID: "s0", Split: Train, Label: 1, Values: []float32{1, 4, 2, 5}},
				{ID: "s1", Split: Test, Label: -1, Values: []float32{3, 6}},
			},
			Source: Provenance{Format: "ts"},
		})
	}
	for want, c := range map[string]archivetest.Column{
		`column "id": row 1 of the row group is null`:                      {"id", archivetest.Text, `["s0",null]`},
		`id "s0" is repeated`:                                              {"id", archivetest.Text, `["s0","s0"]`},
		`split "dev", want "train" or "test"`:                              {"split", archivetest.Text, `["train","dev"]`},
		`series "s1": its label is not among the classes`:                  {"label", archivetest.Text, `["y","z"]`},
		`column "label": stored as INT64, want text: cast it`:              {"label", arrow.PrimitiveTypes.Int64, `[1,2]`},
		`series "s0": length says 3, channel "a" has 2`:                    {"length", arrow.PrimitiveTypes.Int32, `[3,1]`},
		`series "s1": length says 1, channel "b" has 2`:                    {"b", archivetest.List, `[[4,5],[6,7]]`},
		`column "b": Decimal(precision=9, scale=1), want numbers: cast it`: {"b", arrow.ListOf(&arrow.Decimal128Type{Precision: 9, Scale: 1}), `[["0.4","0.5"],["0.6"]]`},
		`column "b": Date, want numbers: cast it`:                          {"b", arrow.ListOf(arrow.FixedWidthTypes.Date32), `[[4,5],[6]]`},
		`column "b": stored as BYTE_ARRAY, want float32: cast it`:          {"b", arrow.ListOf(archivetest.Text), `[["4","5"],["6"]]`},
		`series "s1": length says -1, channel "a" has 1`:                   {"length", arrow.PrimitiveTypes.Uint64, `[2,18446744073709551615]`},
		`column "b": row 1 of the row group is null, want a list`:          {"b", archivetest.List, `[[4,5],null]`},
		`column "b": row 0 of the row group holds a null, want NaN`:        {"b", archivetest.List, `[[4,null],[6]]`},
		`column "b": want a list of plain values`:                          {"b", archivetest.Number, `[4,5]`},
		`column "split": want a plain value, got a list`:                   {"split", archivetest.List, `[[4],[6]]`},
		`series "s1": length says 1, channel "a" has 0`:                    {"a", archivetest.List, `[[1,2],[]]`},
		`column "b": want a plain value or a list, got a structure`:        {"b", archivetest.Pair, `[{"x":1,"y":2},{"x":1,"y":2}]`},
		`series "s0": sample 1 of channel "a" is infinite`:                 {"a", archivetest.List, `[[1,3.5e38],[3]]`},
	} {
		columns := archivetest.SetColumns()
		for i := range columns {
			if columns[i].Name == c.Name {
				columns[i] = c
			}
		}
		_, err := archiveBytes(archivetest.Foreign(t, archivetest.SetMeta(), columns))
		archivetest.WantError(t, err, want)
	}
	for want, change := range map[string][2]string{
		`it has version "2", and this program reads version 1`: {keyVersion, "2"},
		`key eusn.archive is missing`:                          {keyArchive, ""},
		`key eusn.classes: invalid character`:                  {keyClasses, "x,y"},
		`key eusn.channels: want at most`:                      {keyChannels, `["a",""]`},
		`column "c" is missing, metadata key`:                  {keyChannels, `["a","c"]`},
		`class name "x" is given twice`:                        {keyClasses, `["x","y","x"]`},
		`key eusn.provenance: unexpected end`:                  {keyProvenance, ""},
		`this is a model archive, want a dataset`:              {keyArchive, "model"},
	} {
		meta := archivetest.SetMeta()
		meta[change[0]] = change[1]
		_, err := archiveBytes(archivetest.Foreign(t, meta, archivetest.SetColumns()))
		archivetest.WantError(t, err, want)
	}
}

// TestForeignRecording is TestForeignArchive for recordings.
func TestForeignRecording(t *testing.T) {
	meta := map[string]string{keyArchive: layoutRecording, keyVersion: "1", keyProblem: "R", keyChannels: `["a"]`, keyProvenance: `{}`}
	columns := []archivetest.Column{
		{"stream", archivetest.Text, `["p","p","q"]`},
		{"seq", arrow.PrimitiveTypes.Int64, `[1,2,1]`},
		{"time", arrow.FixedWidthTypes.Timestamp_us, `["2024-01-01T00:00:00.000001Z",null,"1970-01-01T00:00:00Z"]`},
		{"a", archivetest.Number, `[1,2,3]`},
		{"end", arrow.FixedWidthTypes.Boolean, `[false,true,false]`},
		{"label", archivetest.Text, `[null,"x",null]`},
		{"meta", archivetest.Pair, `[{"x":1,"y":2},null,{"x":1,"y":2}]`},
	}
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		got, err := recordingBytes(archivetest.Foreign(t, meta, columns, parquet.WithDataPageVersion(version)))
		if err != nil {
			t.Fatal(err)
		}
		want := &RecordingChunk{
			Stream: []string{"p", "p", "q"}, Seq: []int64{1, 2, 1}, Time: []int64{1704067200000001000, NoTime, 0},
			Values: []float32{1, 2, 3}, End: []bool{false, true, false}, Label: []string{"", "x", ""},
		}
		if !sameChunk(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for want, c := range map[string]archivetest.Column{
		`column "time": numbers without a unit`:                     {"time", arrow.PrimitiveTypes.Int64, `[1,2,3]`},
		`column "time": stored as BYTE_ARRAY`:                       {"time", archivetest.Text, `["1","2","3"]`},
		`looks like s since 1970 (2026-01-01T00:00:00Z)`:            {"time", arrow.FixedWidthTypes.Timestamp_ns, `[null,1767225600,3]`},
		`looks like ms since 1970 (2026-01-01T00:00:00Z)`:           {"time", arrow.FixedWidthTypes.Timestamp_us, `[1767225600000,2,3]`},
		`stream "p": seq 1 after 2, want it to increase`:            {"seq", arrow.PrimitiveTypes.Int64, `[2,1,1]`},
		`stream "p": seq 7 after 7, want it to increase`:            {"seq", arrow.PrimitiveTypes.Int32, `[7,7,1]`},
		`column "a": want a plain value or a list, got a structure`: {"a", archivetest.Pair, `[{"x":1,"y":2},{"x":1,"y":2},{"x":1,"y":2}]`},
		`does not fit into 64-bit nanoseconds`:                      {"time", arrow.FixedWidthTypes.Timestamp_us, `["9999-01-01T00:00:00Z",null,null]`},
		`column "a": row 1 of the row group is null`:                {"a", archivetest.Number, `[1,null,3]`},
		`its stream is empty`:                                       {"stream", archivetest.Text, `["p","","q"]`},
		`column "end": stored as INT32, want bool`:                  {"end", arrow.PrimitiveTypes.Int32, `[0,1,0]`},
		`column "seq": row 2 of the row group is null`:              {"seq", arrow.PrimitiveTypes.Int64, `[1,2,null]`},
	} {
		wrong := append([]archivetest.Column(nil), columns...)
		for i := range wrong {
			if wrong[i].Name == c.Name {
				wrong[i] = c
			}
		}
		_, err := recordingBytes(archivetest.Foreign(t, meta, wrong))
		archivetest.WantError(t, err, want)
	}
	_, err := recordingBytes(archivetest.Foreign(t, meta, columns[:5]))
	archivetest.WantError(t, err, `column "label" is missing`)
	none := maps.Clone(meta)
	none[keyChannels] = "[]"
	_, err = recordingBytes(archivetest.Foreign(t, none, columns))
	archivetest.WantError(t, err, "names no channel")
}

// TestForeignNumbers reads samples and counts of the types in tables of other tools.
func TestForeignNumbers(t *testing.T) {
	p := arrow.PrimitiveTypes
	for _, c := range []struct {
		kind arrow.DataType
		in   string // two samples
		want []float32
	}{
		{p.Float64, `[0.1,-1e-60]`, []float32{0.1, float32(math.Copysign(0, -1))}},
		{p.Int8, `[-128,127]`, []float32{-128, 127}},
		{p.Uint16, `[0,65535]`, []float32{0, 65535}},
		{p.Int32, `[-2147483648,16777217]`, []float32{-1 << 31, 1 << 24}},
		{p.Uint32, `[4294967295,1]`, []float32{1 << 32, 1}},
		{p.Int64, `[-9223372036854775808,5]`, []float32{-1 << 63, 5}},
		{p.Uint64, `[10000000000000000000,5]`, []float32{1e19, 5}},
	} {
		columns := archivetest.SetColumns()
		columns[3] = archivetest.Column{"length", p.Int64, `[2,2]`}
		columns[4] = archivetest.Column{"a", arrow.ListOf(c.kind), "[" + c.in + "," + c.in + "]"}
		columns[5] = archivetest.Column{"b", archivetest.List, `[[4,5],[6,7]]`}
		d, err := archiveBytes(archivetest.Foreign(t, archivetest.SetMeta(), columns))
		if err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		if want := []float32{c.want[0], 4, c.want[1], 5}; !sameBits(d.Series[0].Values, want) {
			t.Errorf("%s: series %v, want %v", c.kind, d.Series[0].Values, want)
		}
		meta := map[string]string{keyArchive: layoutRecording, keyVersion: "1", keyProblem: "R", keyChannels: `["a"]`, keyProvenance: `{}`}
		got, err := recordingBytes(archivetest.Foreign(t, meta, []archivetest.Column{
			{"stream", archivetest.Text, `["p","p"]`}, {"seq", p.Int32, `[1,2]`}, {"time", arrow.FixedWidthTypes.Timestamp_us, `[null,null]`},
			{"a", c.kind, c.in}, {"end", arrow.FixedWidthTypes.Boolean, `[false,true]`}, {"label", archivetest.Text, `[null,null]`},
		}))
		if err != nil {
			t.Errorf("%s: recording: %v", c.kind, err)
			continue
		}
		if !sameBits(got.Values, c.want) || got.Seq[1] != 2 {
			t.Errorf("%s: recording %v, numbers %v, want %v", c.kind, got.Values, got.Seq, c.want)
		}
	}
	columns := archivetest.SetColumns()
	columns[4] = archivetest.Column{"a", arrow.ListOf(p.Float64), `[[1,1e39],[3]]`}
	_, err := archiveBytes(archivetest.Foreign(t, archivetest.SetMeta(), columns))
	archivetest.WantError(t, err, `series "s0": sample 1 of channel "a" is infinite`)
}
