package main

import "encoding/gob"

// The types of libmachine, as far as they go over the wire.

type flag interface {
	String() string
	Default() interface{}
}

type stringFlag struct{ Name, Usage, EnvVar, Value string }

type intFlag struct {
	Name, Usage, EnvVar string
	Value               int
}

type boolFlag struct{ Name, Usage, EnvVar string }

type stringSliceFlag struct {
	Name, Usage, EnvVar string
	Value               []string
}

func (f stringFlag) String() string      { return f.Name }
func (f intFlag) String() string         { return f.Name }
func (f boolFlag) String() string        { return f.Name }
func (f stringSliceFlag) String() string { return f.Name }

func (f stringFlag) Default() interface{}      { return f.Value }
func (f intFlag) Default() interface{}         { return f.Value }
func (f boolFlag) Default() interface{}        { return false }
func (f stringSliceFlag) Default() interface{} { return f.Value }

// driverOptions is the interface behind which libmachine sends the values of options.
type driverOptions interface {
	String(key string) string
	StringSlice(key string) []string
	Int(key string) int
	Bool(key string) bool
}

type rpcFlags struct{ Values map[string]interface{} }

func (f rpcFlags) String(key string) string { value, _ := f.Values[key].(string); return value }
func (f rpcFlags) StringSlice(key string) []string {
	value, _ := f.Values[key].([]string)
	return value
}
func (f rpcFlags) Int(key string) int   { value, _ := f.Values[key].(int); return value }
func (f rpcFlags) Bool(key string) bool { value, _ := f.Values[key].(bool); return value }

func init() {
	gob.RegisterName("*rpcdriver.RPCFlags", new(rpcFlags))
	gob.RegisterName("*mcnflag.IntFlag", new(intFlag))
	gob.RegisterName("*mcnflag.StringFlag", new(stringFlag))
	gob.RegisterName("*mcnflag.StringSliceFlag", new(stringSliceFlag))
	gob.RegisterName("*mcnflag.BoolFlag", new(boolFlag))
}
