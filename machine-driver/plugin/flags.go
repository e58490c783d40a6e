// Package plugin speaks the protocol between rancher-machine (libmachine) and its drivers.
//
// The driver listens on a loopback port and prints its address as the first line. Calls come over
// Go's net/rpc, encoded by gob. Values behind interfaces carry the names of libmachine's types, so
// those names are registered here for types of our own that have the same fields.
package plugin

import "encoding/gob"

// Flag is an option of the driver: one of the four kinds below.
type Flag interface {
	String() string
	Default() interface{}
}

// StringFlag is an option with a text.
type StringFlag struct{ Name, Usage, EnvVar, Value string }

// IntFlag is an option with a number.
type IntFlag struct {
	Name, Usage, EnvVar string
	Value               int
}

// BoolFlag is a switch, which is off unless it is given.
type BoolFlag struct{ Name, Usage, EnvVar string }

// StringSliceFlag is an option that can be given several times. This driver has none; libmachine
// registers the kind, so a peer may send it.
type StringSliceFlag struct {
	Name, Usage, EnvVar string
	Value               []string
}

func (f *StringFlag) String() string      { return f.Name }
func (f *IntFlag) String() string         { return f.Name }
func (f *BoolFlag) String() string        { return f.Name }
func (f *StringSliceFlag) String() string { return f.Name }

// Default is the value of an option that is not given.
func (f *StringFlag) Default() interface{} { return f.Value }

// Default is the value of an option that is not given.
func (f *IntFlag) Default() interface{} { return f.Value }

// Default is the value of an option that is not given.
func (f *BoolFlag) Default() interface{} { return false }

// Default is the value of an option that is not given.
func (f *StringSliceFlag) Default() interface{} { return f.Value }

// RPCFlags holds the values of all options, by name: string, int, bool or []string.
type RPCFlags struct{ Values map[string]interface{} }

// Get is the value of an option, nil if none came.
func (f *RPCFlags) Get(name string) interface{} { return f.Values[name] }

// Options is what SetConfigFromFlags is called with.
type Options interface {
	Get(name string) interface{}
}

func init() {
	gob.RegisterName("*rpcdriver.RPCFlags", new(RPCFlags))
	gob.RegisterName("*mcnflag.StringFlag", new(StringFlag))
	gob.RegisterName("*mcnflag.IntFlag", new(IntFlag))
	gob.RegisterName("*mcnflag.BoolFlag", new(BoolFlag))
	gob.RegisterName("*mcnflag.StringSliceFlag", new(StringSliceFlag))
}
