package settings

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// DiskInfo is the JSON of the option disk-info.
type DiskInfo struct {
	Disks []Disk `json:"disks"`
}

// Disk is a disk of the VM; its size is in GiB.
type Disk struct {
	ImageName        string `json:"imageName"`
	StorageClassName string `json:"storageClassName"`
	Size             int    `json:"size"`
	BootOrder        uint   `json:"bootOrder"`
	Bus              string `json:"bus"`
	Type             string `json:"type"`
	HotPlugAble      bool   `json:"hotPlugAble"`
}

// NetworkInfo is the JSON of the option network-info.
type NetworkInfo struct {
	NetworkInterfaces []NetworkInterface `json:"interfaces"`
}

// NetworkInterface is a network card of the VM.
type NetworkInterface struct {
	NetworkName string `json:"networkName"`
	MACAddress  string `json:"macAddress"`
	Model       string `json:"model"`
	Type        string `json:"type"`
}

func readDisks(text string) (*DiskInfo, error) {
	if text == "" {
		return nil, nil
	}
	var info DiskInfo
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return nil, notJSON("diskInfo", err)
	}
	if len(info.Disks) == 0 {
		return nil, fmt.Errorf("diskInfo has no disks")
	}
	for number, disk := range info.Disks {
		where := fmt.Sprintf("diskInfo: disk %d", number+1)
		if disk.ImageName == "" && disk.StorageClassName == "" {
			return nil, fmt.Errorf("%s has neither imageName nor storageClassName", where)
		}
		if disk.Size <= 0 {
			return nil, fmt.Errorf("%s has no size: give it in GiB", where)
		}
		if disk.Type != "" && disk.Type != "disk" && disk.Type != "cd-rom" {
			return nil, fmt.Errorf("%s: type %q is neither disk nor cd-rom", where, disk.Type)
		}
	}
	return &info, nil
}

func readNetworks(text string) (*NetworkInfo, error) {
	if text == "" {
		return nil, nil
	}
	var info NetworkInfo
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return nil, notJSON("networkInfo", err)
	}
	if len(info.NetworkInterfaces) == 0 {
		return nil, fmt.Errorf("networkInfo has no interfaces")
	}
	for number, one := range info.NetworkInterfaces {
		if one.NetworkName == "" {
			return nil, fmt.Errorf("networkInfo: interface %d has no networkName", number+1)
		}
	}
	return &info, nil
}

// notJSON says where a text stops being JSON of the right form. It never repeats the text.
func notJSON(field string, err error) error {
	switch problem := err.(type) {
	case *json.SyntaxError:
		return fmt.Errorf("%s is not JSON: %v (byte %d)", field, problem, problem.Offset)
	case *json.UnmarshalTypeError:
		where := field
		if problem.Field != "" {
			where += ": " + problem.Field
		}
		value, _, _ := strings.Cut(problem.Value, " ") // "number 1.5"
		return fmt.Errorf("%s is %s, not %s", where, valueKinds[value], wanted(problem.Type.Kind()))
	default:
		return fmt.Errorf("%s is not JSON: %v", field, err)
	}
}

const (
	anObject  = "a JSON object"
	aList     = "a list"
	aString   = "a string"
	aBoolean  = "true or false"
	anInteger = "an integer"
)

// valueKinds: what the decoder calls the values of JSON.
var valueKinds = map[string]string{
	"object": anObject, "array": aList, "string": aString, "bool": aBoolean, "number": "a number",
}

func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.Struct:
		return anObject
	case reflect.Slice:
		return aList
	case reflect.Bool:
		return aBoolean
	case reflect.Int:
		return anInteger
	case reflect.Uint:
		return anInteger + " of 0 or more"
	default:
		return aString
	}
}
