package opcua

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcua/opcua/id"
	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
)

// tree is a server with an address space that a function defines.
type tree struct {
	children func(node string) []*ua.ReferenceDescription
	value    func(node string) *ua.DataValue
	page     int  // references per answer
	endless  bool // the references of a node never end
	most     int  // nodes per request
	points   int  // continuation points per request
	requests int
	after    func() // runs after each request
}

func (s *tree) Browse(ctx context.Context, q *ua.BrowseRequest) (*ua.BrowseResponse, error) {
	s.requests++
	if s.after != nil {
		s.after()
	}
	if len(q.NodesToBrowse) > s.most {
		return nil, ua.StatusBadTooManyOperations
	}
	r, points := &ua.BrowseResponse{}, 0
	for _, d := range q.NodesToBrowse {
		result := s.from(d.NodeID.String(), 0)
		if len(result.ContinuationPoint) > 0 {
			if points++; points > s.points {
				result = &ua.BrowseResult{StatusCode: ua.StatusBadNoContinuationPoints}
			}
		}
		r.Results = append(r.Results, result)
	}
	return r, ctx.Err()
}

func (s *tree) from(node string, first int) *ua.BrowseResult {
	refs := s.children(node)
	if s.endless && len(refs) > 0 {
		return &ua.BrowseResult{References: refs, ContinuationPoint: []byte(node + "\x000")}
	}
	refs = refs[min(first, len(refs)):]
	if len(refs) <= s.page {
		return &ua.BrowseResult{References: refs}
	}
	return &ua.BrowseResult{References: refs[:s.page], ContinuationPoint: fmt.Appendf(nil, "%s\x00%d", node, first+s.page)}
}

func (s *tree) BrowseNext(_ context.Context, q *ua.BrowseNextRequest) (*ua.BrowseNextResponse, error) {
	s.requests++
	node, first, _ := strings.Cut(string(q.ContinuationPoints[0]), "\x00")
	n := 0
	fmt.Sscan(first, &n)
	return &ua.BrowseNextResponse{Results: []*ua.BrowseResult{s.from(node, n)}}, nil
}

func (s *tree) Read(_ context.Context, q *ua.ReadRequest) (*ua.ReadResponse, error) {
	s.requests++
	if len(q.NodesToRead) > s.most {
		return nil, ua.StatusBadTooManyOperations
	}
	r := &ua.ReadResponse{}
	for _, d := range q.NodesToRead {
		r.Results = append(r.Results, s.value(d.NodeID.String()))
	}
	return r, nil
}

func newReference(node, name string, class ua.NodeClass, kind uint32) *ua.ReferenceDescription {
	n, err := ua.ParseNodeID(node)
	if err != nil {
		panic(err)
	}
	return &ua.ReferenceDescription{NodeID: &ua.ExpandedNodeID{NodeID: n}, BrowseName: &ua.QualifiedName{Name: name}, NodeClass: class, ReferenceTypeID: ua.NewNumericNodeID(0, kind)}
}

func objectOf(node, name string) *ua.ReferenceDescription {
	return newReference(node, name, ua.NodeClassObject, id.Organizes)
}

func variableOf(node, name string) *ua.ReferenceDescription {
	return newReference(node, name, ua.NodeClassVariable, id.HasComponent)
}

func newTree(children map[string][]*ua.ReferenceDescription) *tree {
	return &tree{
		children: func(node string) []*ua.ReferenceDescription { return children[node] },
		value:    func(string) *ua.DataValue { return &ua.DataValue{Value: ua.MustVariant(1.5)} },
		page:     mostReference, most: 1000, points: 1000,
	}
}

func crawl(t *testing.T, s browser, object ...string) (Space, error) {
	t.Helper()
	w := crawler{server: s, wanted: object, seen: map[string]bool{}}
	err := w.crawl(t.Context())
	return w.space, err
}

func describeSpace(s Space) string {
	var lines []string
	for _, v := range s.Variables {
		lines = append(lines, strings.TrimSpace(strings.Join(v.Path, "/")+" "+v.Node+" "+v.Why))
	}
	return strings.Join(lines, "\n")
}

// A crawler follows loops and second references once, leaves out properties, the object Server and
// other servers, and reads the reason against each value.
func TestBrowse(t *testing.T) {
	remote := objectOf("ns=1;s=Remote", "Remote")
	remote.NodeID.ServerIndex = 1
	children := map[string][]*ua.ReferenceDescription{
		"i=85":       {objectOf("i=2253", "Server"), objectOf("ns=1;s=A", "A"), objectOf("ns=1;s=B", "B"), remote, nil, {}},
		"i=2253":     {variableOf("i=2258", "CurrentTime")},
		"ns=1;s=A":   {variableOf("ns=1;s=A.x", "x"), objectOf("i=85", "Loop"), objectOf("ns=1;s=B", "B"), newReference("ns=1;s=A.unit", "Unit", ua.NodeClassVariable, id.HasProperty)},
		"ns=1;s=B":   {variableOf("ns=1;s=A.x", "x"), variableOf("ns=1;s=S", "struct"), variableOf("ns=1;s=text", "text"), variableOf("ns=1;s=bad", "bad"), variableOf("ns=1;s=null", "null"), variableOf("ns=1;s=list", "list")},
		"ns=1;s=S":   {variableOf("ns=1;s=S.part", "part"), variableOf("ns=1;s=S", "struct")},
		"ns=1;s=bad": {objectOf("ns=1;s=A", "A")},
	}
	values := map[string]*ua.DataValue{
		"ns=1;s=S": {Status: ua.StatusBadDataTypeIDUnknown}, "ns=1;s=text": {Value: ua.MustVariant("7")}, "ns=1;s=bad": {Status: ua.StatusBadNotReadable, Value: ua.MustVariant(1.5)},
		"ns=1;s=null": {}, "ns=1;s=list": {Value: ua.MustVariant([]float64{1})},
	}
	for _, most := range []int{1, 3, 1000} {
		s := newTree(children)
		s.most = most
		value := s.value
		s.value = func(node string) *ua.DataValue {
			if v := values[node]; v != nil {
				return v
			}
			return value(node)
		}
		space, err := crawl(t, s)
		want := `A/x ns=1;s=A.x
B/struct ns=1;s=S no value: StatusBadDataTypeIDUnknown
B/text ns=1;s=text a value of type String
B/bad ns=1;s=bad no value: StatusBadNotReadable
B/null ns=1;s=null no value
B/list ns=1;s=list a value of type array of Double
B/struct/part ns=1;s=S.part`
		if got := describeSpace(space); err != nil || got != want || space.Ended != "" {
			t.Errorf("at most %d nodes in a request: %v, %q\n%s\nwant\n%s", most, err, space.Ended, got, want)
		}
	}
	space, err := crawl(t, newTree(children), "A")
	if got := describeSpace(space); err != nil || !strings.HasPrefix(got, "A/x ns=1;s=A.x\n") || strings.Contains(got, "\nB/") {
		t.Errorf("below A: %v\n%s", err, got)
	}
	if _, err := crawl(t, newTree(children), "A", "C"); err == nil || err.Error() != `the server has no object "C" in "Objects/A": it has ["B" "Loop" "Unit" "x"]` {
		t.Errorf("an absent object: %v", err)
	}
}

// Browsing ends at the limits, and objects that are not complete have no usable variables.
func TestBrowseLimits(t *testing.T) {
	wide := map[string][]*ua.ReferenceDescription{}
	for i := range 1000 {
		wide["i=85"] = append(wide["i=85"], objectOf(fmt.Sprintf("ns=1;s=%d", i), fmt.Sprintf("Box%d", i)))
	}
	inBoxes := func(node string) []*ua.ReferenceDescription {
		if refs := wide[node]; refs != nil {
			return refs
		}
		for k := range 100 {
			wide[node] = append(wide[node], variableOf(fmt.Sprintf("%s.%d", node, k), fmt.Sprintf("V%d", k)))
		}
		return wide[node]
	}
	boxes, paged, slow := newTree(nil), newTree(nil), newTree(nil)
	boxes.children, paged.children, slow.children = inBoxes, inBoxes, inBoxes
	paged.page, paged.points = 30, 3
	one := map[string][]*ua.ReferenceDescription{"i=85": {objectOf("ns=1;s=all", "All")}}
	for i := range 30_000 {
		one["ns=1;s=all"] = append(one["ns=1;s=all"], variableOf(fmt.Sprintf("ns=1;i=%d", i), fmt.Sprintf("V%d", i)))
	}
	endless := newTree(map[string][]*ua.ReferenceDescription{"i=85": {variableOf("ns=1;s=x", "x")}})
	endless.endless = true
	n := 0
	deep := newTree(nil)
	deep.children = func(string) []*ua.ReferenceDescription {
		n++
		return []*ua.ReferenceDescription{objectOf(fmt.Sprintf("ns=1;i=%d", n), "deeper")}
	}
	bushy := newTree(nil)
	bushy.children = func(node string) (all []*ua.ReferenceDescription) {
		for range 10 {
			n++
			all = append(all, objectOf(fmt.Sprintf("ns=1;i=%d", n), "more"))
		}
		return all
	}
	for _, test := range []struct {
		name       string
		server     *tree
		ended      string
		usable     int // at least
		mostNodes  int
		mostAnswer int
	}{
		{"100,000 variables in 1,000 objects", boxes, "20000 nodes", 18_000, mostNodes, 500},
		{"the same in small answers", paged, "20000 nodes", 18_000, mostNodes, 5000},
		{"30,000 variables in one object", newTree(one), "20000 nodes", 0, mostNodes, 500},
		{"references without an end", endless, "", 0, 1, 30_000},
		{"objects in objects without an end", deep, "12 levels", 0, 12, 20},
		{"ten objects in each object", bushy, "20000 nodes", 0, mostNodes, 1000},
	} {
		space, err := crawl(t, test.server)
		usable := len(slices.DeleteFunc(slices.Clone(space.Variables), func(v Variable) bool { return v.Why != "" }))
		if err != nil || space.Ended != test.ended || usable < test.usable || test.usable == 0 && usable > 0 || space.Nodes > test.mostNodes || test.server.requests > test.mostAnswer {
			t.Errorf("%s: %v, ended at %q, %d nodes, %d variables, %d requests", test.name, err, space.Ended, space.Nodes, usable, test.server.requests)
		}
		perBox := map[string]int{}
		for _, v := range space.Variables {
			if v.Why == "" {
				perBox[v.Path[0]]++
			}
		}
		for box, count := range perBox {
			if count != 100 {
				t.Errorf("%s: %s has %d usable variables of 100", test.name, box, count)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow.after = func() {
		if slow.requests > 4 {
			cancel()
		}
	}
	w := crawler{server: slow, seen: map[string]bool{}}
	if err := w.crawl(ctx); err != nil || w.space.Ended != "1m0s" || w.space.Nodes == 0 {
		t.Errorf("out of time: %v, %q, %d nodes", err, w.space.Ended, w.space.Nodes)
	}
}

// The period is that of the variables that change most often, in spite of jitter, of variables that
// rest, and of an old first value.
func TestPeriod(t *testing.T) {
	var values []value
	for n := range 40 {
		at := int64(n) * int64(250*time.Millisecond)
		jitter := int64(n%3-1) * int64(4*time.Millisecond)
		values = append(values, value{item: 0, time: at + jitter}, value{item: 2, time: at + 7})
		if n%4 == 0 {
			values = append(values, value{item: 1, time: at})
		}
	}
	items := []item{{Place: image.Place{Stream: 0}}, {Place: image.Place{Stream: 0, Channel: 1}}, {Place: image.Place{Stream: 1}}, {Place: image.Place{Stream: 2}}}
	values = append(values, value{item: 3, time: 5}) // rests
	if period, streams := periodOf(values, items, 3); period != 250*time.Millisecond || streams != 2 {
		t.Errorf("%v of %d streams", period, streams)
	}
	if period, streams := periodOf(values[len(values)-1:], items, 3); period != 0 || streams != 0 {
		t.Errorf("one value: %v of %d streams", period, streams)
	}
	for _, test := range []struct{ ns, want int64 }{{3, 1e6}, {99_000_000, 1e8}, {1_003_000_000, 1e9}, {16_666_667, 16_700_000}, {999_999_999, 1e9}, {252_000_000, 25e7}, {60_100_000_000, 60_100_000_000}, {3e18, 3e18}} {
		if got := roundPeriod(test.ns); int64(got) != test.want {
			t.Errorf("roundPeriod(%d) = %d, want %d", test.ns, got, test.want)
		}
	}
}
