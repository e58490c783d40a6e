package machine

import (
	"net"
	"strings"
)

type metadata struct {
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Finalizers        []string          `json:"finalizers"`
	Annotations       map[string]string `json:"annotations"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type conditions []condition

// of is the condition of a type; an empty one if there is none.
func (c conditions) of(kind string) condition {
	for _, one := range c {
		if one.Type == kind {
			return one
		}
	}
	return condition{}
}

type virtualMachine struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Template struct {
			Spec struct {
				Volumes []struct {
					Claim *struct {
						Name         string `json:"claimName"`
						Hotpluggable bool   `json:"hotpluggable"`
					} `json:"persistentVolumeClaim"`
				} `json:"volumes"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Printable  string     `json:"printableStatus"`
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

type instanceStatus struct {
	Phase      string     `json:"phase"`
	Conditions conditions `json:"conditions"`
	Interfaces []struct {
		IP  string   `json:"ipAddress"`
		IPs []string `json:"ipAddresses"`
	} `json:"interfaces"`
}

func (s *instanceStatus) condition(kind string) condition { return s.Conditions.of(kind) }

type instance struct {
	Metadata metadata       `json:"metadata"`
	Status   instanceStatus `json:"status"`
}

// address is the first address that fits. KubeVirt reports none until the guest agent runs, where the
// network is a bridge.
func (i *instance) address(fits func(net.IP) bool) string {
	for _, one := range i.Status.Interfaces {
		for _, text := range append([]string{one.IP}, one.IPs...) {
			text, _, _ = strings.Cut(text, "/")
			if ip := net.ParseIP(text); ip != nil && fits(ip) {
				return text
			}
		}
	}
	return ""
}

type pods struct {
	Items []struct {
		Metadata metadata `json:"metadata"`
		Status   struct {
			Phase      string     `json:"phase"`
			Conditions conditions `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}
