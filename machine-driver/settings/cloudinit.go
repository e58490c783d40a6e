package settings

import (
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// UserCloudConfig is the user data of the settings; nil where there is none.
func (s *Settings) UserCloudConfig() (map[string]interface{}, error) {
	return ReadCloudConfig("userData", s.UserData)
}

// ReadCloudConfig reads a cloud-config. Its errors never repeat the text, which may have secrets.
func ReadCloudConfig(field, text string) (map[string]interface{}, error) {
	if text == "" {
		return nil, nil
	}
	var found map[string]interface{}
	if err := yaml.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("%s is not a cloud-config: it has to be a mapping as YAML", field)
	}
	return found, nil
}

// section is a part of the network data; each has more keys than are looked at.
type section struct {
	Network *section `yaml:"network"`
	Version int      `yaml:"version"`
	Config  []struct {
		Type    string      `yaml:"type"`
		Address interface{} `yaml:"address"`
		Subnets []struct {
			Type    string `yaml:"type"`
			Gateway string `yaml:"gateway"`
		} `yaml:"subnets"`
	} `yaml:"config"`
}

// checkNetworkData refuses what leaves the machine without a route or a name server. Only version 1
// is looked into, as by Harvester's driver.
func checkNetworkData(text string) error {
	if text == "" {
		return nil
	}
	var found section
	if err := yaml.Unmarshal([]byte(text), &found); err != nil {
		return errors.New("networkData is not network data of cloud-init as YAML")
	}
	root := &found
	if root.Network != nil {
		root = root.Network
	}
	if root.Version == 0 {
		return errors.New("networkData has no version")
	}
	if root.Version != 1 {
		return nil
	}
	gateways, dhcp, servers := 0, 0, 0
	for _, one := range root.Config {
		if one.Type == "nameserver" && one.Address != nil {
			servers++
		}
		if one.Type != "physical" {
			continue
		}
		for _, subnet := range one.Subnets {
			switch {
			case subnet.Type == "dhcp" || subnet.Type == "dhcp4":
				dhcp++
			case subnet.Type == "static" && subnet.Gateway != "":
				gateways++
			}
		}
	}
	switch {
	case gateways > 1:
		return fmt.Errorf("networkData has %d default gateways; one is possible", gateways)
	case gateways == 0 && dhcp == 0:
		return errors.New("networkData has neither a gateway nor DHCP")
	case servers == 0 && dhcp == 0:
		return errors.New("networkData has no name server")
	}
	return nil
}
