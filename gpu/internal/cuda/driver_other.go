//go:build !linux || !cgo

package cuda

// Driver, Context and Batch exist here so that the engine compiles; Open never
// returns a Driver.
type (
	Driver  struct{}
	Context struct{}
	Batch   struct{}
)

func unsupported() error { return &Error{Kind: Unsupported, Op: "open driver"} }

// Open returns Unsupported.
func Open() (*Driver, error) { return nil, unsupported() }

func (*Driver) Version() string                                 { return "" }
func (*Driver) Devices() ([]Device, error)                      { return nil, unsupported() }
func (*Driver) Context(Device) (*Context, error)                { return nil, unsupported() }
func (*Context) Device() Device                                 { return Device{} }
func (*Context) Memory() (free, total uint64, err error)        { return 0, 0, unsupported() }
func (*Context) Load(string) (Module, error)                    { return 0, unsupported() }
func (*Context) Function(Module, string, int) (Function, error) { return 0, unsupported() }
func (*Context) Alloc(int) (Pointer, error)                     { return 0, unsupported() }
func (*Context) Free(Pointer) error                             { return unsupported() }
func (*Context) Pin(int) ([]byte, error)                        { return nil, unsupported() }
func (*Context) NewStream() (Stream, error)                     { return 0, unsupported() }
func (*Context) NewEvent() (Event, error)                       { return 0, unsupported() }
func (*Context) Synchronize(Stream) error                       { return unsupported() }
func (*Context) WaitFor(Event) error                            { return unsupported() }
func (*Context) Submit(Stream, *Batch) error                    { return unsupported() }
func (*Context) Close() error                                   { return nil }
func (*Batch) Len() int                                         { return 0 }
func (*Batch) Reset()                                           {}
func (*Batch) Up(Pointer, []byte)                               {}
func (*Batch) Down([]byte, Pointer)                             {}
func (*Batch) Fill(Pointer, uint32, int)                        {}
func (*Batch) Wait(Event)                                       {}
func (*Batch) Record(Event)                                     {}
func Start[P any](b *Batch, l Launch, params *P)                {}
