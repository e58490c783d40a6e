// client does what rancher-machine does with a driver: the same calls of libmachine, in its order,
// by Go's own net/rpc. It shares no code with the driver.
//
//	client DRIVER STORE COMMAND [NAME] [ARGUMENT...]
//
// Options of `create` and `configure` come as JSON on standard input. The outcome is one JSON object on standard
// output; what a machine's configuration is between two commands is kept in the folder STORE.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var states = []string{
	"", "Running", "Paused", "Saved", "Stopped", "Stopping", "Starting", "Error", "Timeout", "Not Found",
}

type outcome struct {
	Error  string      `json:"error"`
	Value  interface{} `json:"value"`
	Calls  []string    `json:"calls"`
	Out    []string    `json:"out"`
	Status string      `json:"status"` // how the driver's process ended
}

type client struct{ driver, store string }

func main() {
	one := client{os.Args[1], os.Args[2]}
	found := one.run(os.Args[3], os.Args[4:])
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}

func (c client) run(command string, arguments []string) (found outcome) {
	name := ""
	if len(arguments) > 0 {
		name = arguments[0]
	}
	var config []byte
	var err error
	switch command {
	case "flags":
		config = []byte(`{"MachineName":"flag-lookup"}`)
	case "create", "configure":
		config, err = json.Marshal(map[string]string{"MachineName": name, "StorePath": c.store})
	default:
		config, err = c.load(name)
		if os.IsNotExist(err) && command == "rm" {
			found.Value = "Machine config for " + name + " does not exists, so nothing to do..."
			return found
		}
	}
	if err != nil {
		found.Error = err.Error()
		return found
	}
	p, err := start(c.driver, append([]string{"rancher-machine", command}, arguments...), config)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	found.Value, err = c.act(p, command, name)
	if err != nil {
		found.Error = err.Error()
	}
	if err := p.close(); err != nil {
		found.Status = err.Error()
	}
	found.Calls, found.Out = p.names, p.out
	return found
}

func (c client) act(p *plugin, command, name string) (interface{}, error) {
	switch command {
	case "flags":
		return p.flags()
	case "create":
		return nil, c.create(p, name)
	case "configure": // the part of create that is about options
		if err := c.configure(p, name); err != nil {
			return nil, err
		}
		raw, err := p.config()
		return json.RawMessage(raw), err
	case "rm":
		return nil, c.remove(p, name)
	case "start":
		return nil, p.reach("Start", "Running")
	case "stop":
		return nil, p.reach("Stop", "Stopped")
	case "kill":
		return nil, p.reach("Kill", "Stopped")
	case "restart":
		return nil, p.restart()
	case "upgrade":
		return p.upgrade()
	case "status":
		state, err := p.state()
		return states[state], err
	case "config":
		raw, err := p.config()
		return json.RawMessage(raw), err
	case "ssh":
		return p.ssh()
	default: // a call of its own, such as GetIP
		return p.text(command)
	}
}

func (c client) path(name string) string {
	return filepath.Join(c.store, "machines", name, "config.json")
}

func (c client) load(name string) ([]byte, error) { return os.ReadFile(c.path(name)) }

func (c client) save(p *plugin, name string) error {
	raw, err := p.config()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path(name)), 0o700); err != nil {
		return err
	}
	return os.WriteFile(c.path(name), raw, 0o600)
}

func (c client) configure(p *plugin, name string) error {
	p.text("GetMachineName")
	p.text("DriverName")
	flags, err := p.flags()
	if err != nil {
		return err
	}
	values := rpcFlags{map[string]interface{}{}}
	for _, one := range flags {
		values.Values[one.String()] = one.Default()
	}
	if err := given(values.Values); err != nil {
		return err
	}
	userData, err := p.userDataFlag()
	if err != nil {
		return err
	}
	p.flags() // for the one of the operating system
	script := filepath.Join(c.store, "install.yaml")
	installing := "#cloud-config\nhostname: " + name + "\nruncmd:\n- sh /usr/local/custom_script/install.sh\n"
	if err := os.WriteFile(script, []byte(installing), 0o600); err != nil {
		return err
	}
	values.Values[userData] = script
	var options driverOptions = &values
	if err := p.call("SetConfigFromFlags", &options, nil); err != nil {
		return fmt.Errorf("error setting machine configuration from flags provided: %w", err)
	}
	return nil
}

func (c client) create(p *plugin, name string) error {
	if err := c.configure(p, name); err != nil {
		return err
	}
	if err := p.do("PreCreateCheck"); err != nil {
		return fmt.Errorf("error with pre-create check: %w", err)
	}
	if err := c.save(p, name); err != nil {
		return err
	}
	if err := p.do("Create"); err != nil {
		p.text("DriverName")
		return fmt.Errorf("error in driver during machine creation: %w", err)
	}
	if err := c.save(p, name); err != nil {
		return err
	}
	for range "123" { // are these drivers whose machines need no waiting?
		p.text("DriverName")
	}
	if err := p.wait("Running"); err != nil {
		return err
	}
	if _, err := p.userDataFlag(); err != nil { // no SSH where the script came by user data
		return err
	}
	return c.save(p, name)
}

// given takes options from standard input, with the types that a command line has.
func given(values map[string]interface{}) error {
	var found map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&found); err != nil {
		return err
	}
	for name, value := range found {
		switch known := values[name].(type) {
		case nil:
			return fmt.Errorf("flag provided but not defined: -%s", name)
		case int:
			number, ok := value.(float64)
			if !ok {
				return fmt.Errorf("%s is no number", name)
			}
			values[name] = int(number)
		default:
			_ = known
			values[name] = value
		}
	}
	return nil
}

// userDataFlag is the first option whose name is about user data.
func (p *plugin) userDataFlag() (string, error) {
	flags, err := p.flags()
	for _, one := range flags {
		for _, part := range []string{"user-data", "userdata", "custom-data", "cloud-config"} {
			if strings.Contains(one.String(), part) {
				return one.String(), err
			}
		}
	}
	return "", fmt.Errorf("no option for user data: %v", err)
}

func (c client) remove(p *plugin, name string) error {
	err := p.do("Remove")
	if err != nil && !strings.Contains(strings.ToLower(err.Error()), "not found") {
		return err
	}
	return os.RemoveAll(filepath.Dir(c.path(name)))
}

func (p *plugin) is(state string) bool {
	found, err := p.state()
	return err == nil && states[found] == state
}

func (p *plugin) wait(state string) error {
	for range [60]struct{}{} {
		if p.is(state) {
			return nil
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("Maximum number of retries (60) exceeded")
}

func (p *plugin) reach(action, state string) error {
	if p.is(state) {
		return fmt.Errorf("machine is already %s", strings.ToLower(state))
	}
	if err := p.do(action); err != nil {
		return err
	}
	return p.wait(state)
}

func (p *plugin) restart() error {
	if p.is("Stopped") {
		return p.reach("Start", "Running")
	}
	if !p.is("Running") {
		return nil
	}
	if err := p.do("Restart"); err != nil {
		return err
	}
	return p.wait("Running")
}

// upgrade does what comes before rancher-machine upgrades software by SSH.
func (p *plugin) upgrade() (interface{}, error) {
	if !p.is("Running") {
		if err := p.reach("Start", "Running"); err != nil {
			return nil, err
		}
	}
	if err := p.do("Upgrade"); err != nil {
		return nil, err
	}
	return p.ssh()
}

func (p *plugin) ssh() (interface{}, error) {
	host, err := p.text("GetSSHHostname")
	if err != nil {
		return nil, err
	}
	var port int
	if err := p.call("GetSSHPort", struct{}{}, &port); err != nil {
		return nil, err
	}
	key, _ := p.text("GetSSHKeyPath")
	user, _ := p.text("GetSSHUsername")
	url, err := p.text("GetURL")
	return map[string]interface{}{"host": host, "port": port, "key": key, "user": user, "url": url}, err
}
