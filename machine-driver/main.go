// docker-machine-driver-laneway is a machine driver for Rancher: it makes VMs with vGPUs and PCI
// devices on Harvester. README.md says how it is built and what is where.
package main

import (
	"fmt"
	"os"

	"docker-machine-driver-laneway/machine"
	"docker-machine-driver-laneway/plugin"
)

// version is set by the build.
var version = "unknown"

const about = `docker-machine-driver-laneway %s is a plugin of rancher-machine: Rancher starts it to
create VMs with vGPUs and PCI devices on Harvester. It does nothing when it is started by hand.
Add it to Rancher as a node driver: Cluster Management, Drivers, Node Drivers, Add Node Driver.
`

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(version)
		return
	}
	if !plugin.IsStartedByMachine() {
		fmt.Fprintf(os.Stderr, about, version)
		os.Exit(1)
	}
	if err := plugin.Serve(machine.New(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
