package opcua

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gopcua/opcua/id"
	"github.com/gopcua/opcua/ua"
)

// Limits of Browse. A server may have any number of nodes, and its references may form loops.
const (
	mostNodes     = 20_000 // after the first object
	mostLevels    = 12
	browseTime    = time.Minute
	browseBatch   = 50   // nodes per request
	readBatch     = 200  // values per request
	mostReference = 1000 // references per node and answer
	mostNameBytes = 256
)

// Variable is a variable of a server.
type Variable struct {
	Path []string // names of its objects and of the variable, from below the folder Objects
	Node string   // node id
	Why  string   // reason why its value cannot be used; empty: it is a number
}

// Space is the browsed part of a server's address space.
type Space struct {
	Variables []Variable // in the order of their levels
	Nodes     int        // objects and variables
	Ended     string     // the limit that has ended the browsing; empty: everything was browsed
}

// Browse finds the variables of a server below an object, given by its names from below the folder
// Objects. The object Server is left out.
func Browse(ctx context.Context, o Options, object []string) (*Space, error) {
	c, err := newConnection(o)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(request{Options: c.options, Wait: c.wait, Browse: true, Object: object})
	if err != nil {
		return nil, fmt.Errorf("the process that reads the server cannot be started: %w", err)
	}
	stop := context.AfterFunc(ctx, p.close)
	defer stop()
	defer p.stop()
	r, err := p.readReport()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case r.Space == nil:
		return nil, errors.New(r.Failed)
	}
	return r.Space, nil
}

// browseSession connects and browses, in the reader process.
func (c *Client) browseSession(ctx context.Context, object []string) (*Space, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts, _, err := c.chooseEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	client, _, err := c.connectServer(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer closeSession(client)
	b := crawler{server: client, wanted: object, seen: map[string]bool{}}
	within, cancelBrowse := context.WithTimeout(ctx, browseTime)
	defer cancelBrowse()
	if err := b.crawl(within); err != nil {
		return nil, err
	}
	return &b.space, nil
}

// browser is the part of a client that a crawler uses.
type browser interface {
	Browse(context.Context, *ua.BrowseRequest) (*ua.BrowseResponse, error)
	BrowseNext(context.Context, *ua.BrowseNextRequest) (*ua.BrowseNextResponse, error)
	Read(context.Context, *ua.ReadRequest) (*ua.ReadResponse, error)
}

// branch is a node whose references are followed.
type branch struct {
	node *ua.NodeID
	path []string
}

// crawler browses level by level, each node once.
type crawler struct {
	server browser
	wanted []string // names of the objects to the first object
	seen   map[string]bool
	space  Space
}

func (w *crawler) crawl(ctx context.Context) error {
	level := []branch{{ua.NewNumericNodeID(0, id.ObjectsFolder), nil}}
	for depth := 0; len(level) > 0; depth++ {
		if depth == mostLevels+len(w.wanted) {
			w.end(fmt.Sprintf("%d levels", mostLevels))
			return nil
		}
		next, err := w.descend(ctx, level)
		if err != nil && ctx.Err() != nil && w.space.Nodes > 0 {
			w.end(fmt.Sprintf("%v", browseTime))
			return nil
		}
		if err != nil || w.space.Ended != "" {
			return err
		}
		if depth < len(w.wanted) && len(next) == 0 {
			return w.missingObject(ctx, level)
		}
		level = next
	}
	return nil
}

// end notes the first limit.
func (w *crawler) end(limit string) {
	if w.space.Ended == "" {
		w.space.Ended = limit
	}
}

// missingObject is the error of an object that the server does not have.
func (w *crawler) missingObject(ctx context.Context, level []branch) error {
	parent, names := level[0], []string{}
	refs, _, err := w.references(ctx, parent.node)
	if err != nil {
		return err
	}
	for _, r := range refs {
		names = append(names, nameOf(r))
	}
	slices.Sort(names)
	suffix := ""
	if len(names) > 10 {
		names, suffix = names[:10], ", ..."
	}
	return fmt.Errorf("the server has no object %q in %q: it has %q%s", w.wanted[len(parent.path)], strings.Join(append([]string{"Objects"}, parent.path...), "/"), names, suffix)
}

// descend browses the nodes of a level, and returns the nodes of the next level.
func (w *crawler) descend(ctx context.Context, level []branch) (next []branch, err error) {
	for batch := range slices.Chunk(level, browseBatch) {
		results, err := w.browse(ctx, batch)
		if err != nil {
			return nil, err
		}
		var variables []branch
		for i, b := range batch {
			if w.space.Ended != "" {
				break
			}
			objects, found, err := w.expand(ctx, b, results[i])
			if err != nil {
				return nil, err
			}
			next, variables = append(next, objects...), append(variables, found...)
		}
		structured, err := w.readValues(ctx, variables)
		if err != nil {
			return nil, err
		}
		if next = append(next, structured...); w.space.Ended != "" {
			return nil, nil
		}
	}
	return next, nil
}

// browse sends one request for several nodes. A server may refuse a long request.
func (w *crawler) browse(ctx context.Context, nodes []branch) ([]*ua.BrowseResult, error) {
	q := &ua.BrowseRequest{RequestedMaxReferencesPerNode: mostReference}
	for _, b := range nodes {
		q.NodesToBrowse = append(q.NodesToBrowse, &ua.BrowseDescription{
			NodeID: b.node, ReferenceTypeID: ua.NewNumericNodeID(0, id.HierarchicalReferences), IncludeSubtypes: true,
			NodeClassMask: uint32(ua.NodeClassObject | ua.NodeClassVariable), ResultMask: uint32(ua.BrowseResultMaskAll),
		})
	}
	r, err := w.server.Browse(ctx, q)
	if n := len(nodes); n > 1 && errors.Is(err, ua.StatusBadTooManyOperations) {
		first, err := w.browse(ctx, nodes[:n/2])
		if err != nil {
			return nil, err
		}
		rest, err := w.browse(ctx, nodes[n/2:])
		return append(first, rest...), err
	}
	if err != nil {
		return nil, fmt.Errorf("browsing: %w", err)
	}
	if len(r.Results) != len(nodes) || slices.Contains(r.Results, nil) {
		return nil, fmt.Errorf("browsing: the server answers for %d of %d nodes", len(r.Results), len(nodes))
	}
	return r.Results, nil
}

// references returns the references of one node; complete is false at the limit of nodes.
func (w *crawler) references(ctx context.Context, node *ua.NodeID) (refs []*ua.ReferenceDescription, complete bool, err error) {
	r, err := w.browse(ctx, []branch{{node: node}})
	if err != nil {
		return nil, false, err
	}
	return w.rest(ctx, r[0])
}

// rest returns the references of a result and of its continuations.
func (w *crawler) rest(ctx context.Context, r *ua.BrowseResult) (refs []*ua.ReferenceDescription, complete bool, err error) {
	refs = r.References
	for point := r.ContinuationPoint; len(point) > 0; {
		full := len(refs) > mostNodes
		next, err := w.server.BrowseNext(ctx, &ua.BrowseNextRequest{ReleaseContinuationPoints: full, ContinuationPoints: [][]byte{point}})
		switch {
		case full:
			return refs, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("browsing: %w", err)
		case len(next.Results) != 1 || next.Results[0] == nil || next.Results[0].StatusCode != ua.StatusOK || len(next.Results[0].References) == 0:
			return refs, false, nil
		}
		refs, point = append(refs, next.Results[0].References...), next.Results[0].ContinuationPoint
	}
	return refs, true, nil
}

// expand returns the objects and the variables of a node.
func (w *crawler) expand(ctx context.Context, b branch, r *ua.BrowseResult) (objects, variables []branch, err error) {
	refs, complete, err := w.rest(ctx, r)
	if r.StatusCode == ua.StatusBadNoContinuationPoints { // the other nodes of the request have used all
		refs, complete, err = w.references(ctx, b.node)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, ref := range refs {
		if !w.follows(ref, len(b.path)) {
			continue
		}
		if w.space.Nodes == mostNodes {
			w.end(fmt.Sprintf("%d nodes", mostNodes))
			complete = false
			break
		}
		child := branch{ref.NodeID.NodeID, append(slices.Clip(b.path), nameOf(ref))}
		w.seen[child.node.String()] = true
		if w.space.Nodes++; ref.NodeClass == ua.NodeClassVariable {
			variables = append(variables, child)
		} else {
			objects = append(objects, child)
		}
	}
	if !complete { // a machine with some of its channels would be of another kind
		for _, v := range variables {
			w.addVariable(v, "the server has not listed all variables of the object")
		}
		variables = nil
	}
	return objects, variables, nil
}

// follows reports whether a reference leads to a new object or variable of this server.
func (w *crawler) follows(r *ua.ReferenceDescription, depth int) bool {
	if r == nil || r.NodeID == nil || r.NodeID.NodeID == nil || r.NodeID.ServerIndex != 0 || r.NodeID.NamespaceURI != "" || r.ReferenceTypeID == nil {
		return false
	}
	n := r.NodeID.NodeID
	if isStandard(n, id.Server) || isStandard(n, id.Aliases) || isStandard(r.ReferenceTypeID, id.HasProperty) || w.seen[n.String()] {
		return false
	}
	if depth < len(w.wanted) {
		return nameOf(r) == w.wanted[depth]
	}
	return r.NodeClass == ua.NodeClassObject || r.NodeClass == ua.NodeClassVariable
}

// isStandard reports whether a node is one of the standard.
func isStandard(n *ua.NodeID, number uint32) bool {
	return n.Namespace() == 0 && n.Type() <= ua.NodeIDTypeNumeric && n.IntID() == number
}

// nameOf is the name of a node.
func nameOf(r *ua.ReferenceDescription) string {
	name := ""
	if r.BrowseName != nil {
		name = r.BrowseName.Name
	}
	return strings.ToValidUTF8(name[:min(len(name), mostNameBytes)], "")
}

func (w *crawler) addVariable(b branch, why string) {
	w.space.Variables = append(w.space.Variables, Variable{b.path, b.node.String(), why})
}

// readValues reads the values of variables, and returns the variables that may have parts.
func (w *crawler) readValues(ctx context.Context, variables []branch) (structured []branch, err error) {
	for batch := range slices.Chunk(variables, readBatch) {
		values, err := w.requestValues(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i, b := range batch {
			why, hasParts := checkValue(values[i])
			if hasParts {
				structured = append(structured, b)
			}
			w.addVariable(b, why)
		}
	}
	return structured, nil
}

// requestValues reads the values of variables with one request. A server may refuse a long request.
func (w *crawler) requestValues(ctx context.Context, variables []branch) ([]*ua.DataValue, error) {
	q := &ua.ReadRequest{TimestampsToReturn: ua.TimestampsToReturnNeither}
	for _, b := range variables {
		q.NodesToRead = append(q.NodesToRead, &ua.ReadValueID{NodeID: b.node, AttributeID: ua.AttributeIDValue})
	}
	r, err := w.server.Read(ctx, q)
	tooLong := errors.Is(err, ua.StatusBadTooManyOperations) || errors.Is(err, ua.StatusBadResponseTooLarge) || errors.Is(err, ua.StatusBadEncodingLimitsExceeded)
	if n := len(variables); n > 1 && tooLong {
		first, err := w.requestValues(ctx, variables[:n/2])
		if err != nil {
			return nil, err
		}
		rest, err := w.requestValues(ctx, variables[n/2:])
		return append(first, rest...), err
	}
	if err != nil {
		return nil, fmt.Errorf("reading values: %w", err)
	}
	if len(r.Results) != len(variables) {
		return nil, fmt.Errorf("reading values: the server answers for %d of %d variables", len(r.Results), len(variables))
	}
	return r.Results, nil
}

// checkValue returns the reason why a value cannot be used, empty for a number, and whether the
// variable may have parts that are variables.
func checkValue(v *ua.DataValue) (why string, hasParts bool) {
	switch {
	case v == nil || v.Value == nil || v.Value.Value() == nil:
		if v != nil && uint32(v.Status)>>severity >= 2 {
			return "no value: " + statusName(v.Status), true
		}
		return "no value", true
	case uint32(v.Status)>>severity >= 2:
		return "no value: " + statusName(v.Status), true
	}
	r := newReading(0, v)
	switch r.X.(type) {
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64:
		return "", false
	case bool, string:
		return "a value of type " + r.Type, false
	}
	return "a value of type " + r.Type, true
}

// statusName is the name of a status code, such as StatusBadNotReadable.
func statusName(s ua.StatusCode) string {
	if d, found := ua.StatusCodes[s&codeBits]; found && d.Name != "" {
		return d.Name
	}
	return fmt.Sprintf("status %#x", uint32(s))
}
