package main

// What goes wrong on purpose: failing tasks, faults, cut connections, nonsense.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"reflect"

	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// mischief is one thing that goes wrong with requests of a method, of VMs of a name.
type mischief struct {
	// As is how: `task` (the task fails), `fault` (the request is refused at once), `drop` (the
	// connection is cut before it is carried out), `dropAfter` (and after), `nonsense`.
	As      string          `json:"as"`
	Method  string          `json:"method"`
	VM      string          `json:"vm"`
	Host    string          `json:"host"`  // only when this host was chosen: for clones, moves and power-on
	Fault   string          `json:"fault"` // type of the fault
	Text    string          `json:"text"`  // its words, or the nonsense
	Details json.RawMessage `json:"details"`
	Status  int             `json:"status"` // of nonsense
	Times   int             `json:"times"`  // 0: once; negative: for ever

	fault types.BaseMethodFault
}

// check makes the fault of it, or says what is wrong.
func (k *mischief) check() error {
	if k.Status == 0 {
		k.Status = http.StatusOK
	}
	switch k.As {
	case "drop", "dropAfter", "nonsense":
		return nil
	case "task", "fault":
	default:
		return fmt.Errorf("as: %q is none of task, fault, drop, dropAfter, nonsense", k.As)
	}
	kind, ok := types.TypeFunc()(k.Fault)
	if !ok {
		return fmt.Errorf("fault: no type %q", k.Fault)
	}
	value := reflect.New(kind).Interface()
	if len(k.Details) > 0 {
		if err := json.Unmarshal(k.Details, value); err != nil {
			return fmt.Errorf("details: %w", err)
		}
	}
	fillReferences(reflect.ValueOf(value).Elem())
	if k.fault, ok = value.(types.BaseMethodFault); !ok {
		return fmt.Errorf("fault: %s is not a fault", k.Fault)
	}
	return nil
}

// fillReferences names an object where a fault must name one and details do not.
func fillReferences(fault reflect.Value) {
	for i := 0; i < fault.NumField(); i++ {
		field := fault.Field(i)
		if ref, ok := field.Interface().(reference); ok && ref.Type == "" {
			field.Set(reflect.ValueOf(reference{Type: "Folder", Value: "group-d1"}))
		} else if field.Kind() == reflect.Struct {
			fillReferences(field)
		}
	}
}

// strike finds what goes wrong now, and counts it.
func (r *rig) strike(task bool, method, vm, host string) *mischief {
	for i, k := range r.mischief {
		if (k.As == "task") != task || !glob(k.Method, method) || !glob(k.VM, vm) ||
			(k.Host == "") != (host == "") || !glob(k.Host, host) {
			continue
		}
		if k.Times >= 0 {
			if k.Times--; k.Times <= 0 {
				r.mischief = append(append([]*mischief{}, r.mischief[:i]...), r.mischief[i+1:]...)
			}
		}
		return k
	}
	return nil
}

// failure is why a task fails that is to; host: the one that was chosen, if one was.
func (r *rig) failure(method, vm, host string) *refusal {
	if k := r.strike(true, method, vm, host); k != nil {
		return refuse(k.fault, k.Text)
	}
	return nil
}

const envelope = `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>%s</soapenv:Body></soapenv:Envelope>`

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, envelope, body)
}

// answerFault refuses a request at once.
func answerFault(w http.ResponseWriter, fault types.BaseMethodFault, text string) {
	kind := reflect.TypeOf(fault).Elem().Name()
	var detail bytes.Buffer
	start := xml.StartElement{Name: xml.Name{Local: kind + "Fault"}, Attr: []xml.Attr{
		{Name: xml.Name{Local: "xmlns"}, Value: "urn:vim25"}, {Name: xml.Name{Local: "xsi:type"}, Value: kind}}}
	encoder := xml.NewEncoder(&detail)
	if err := encoder.EncodeElement(fault, start); err == nil {
		_ = encoder.Flush()
	}
	answer(w, http.StatusInternalServerError, fmt.Sprintf(
		"<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>%s</faultstring><detail>%s</detail></soapenv:Fault>",
		html.EscapeString(text), detail.String()))
}

// answerTask answers a method that returns a task, or nothing.
func answerTask(w http.ResponseWriter, method string, task *reference) {
	returned := ""
	if task != nil {
		returned = fmt.Sprintf(`<returnval type="Task">%s</returnval>`, task.Value)
	}
	answer(w, http.StatusOK, fmt.Sprintf(`<%sResponse xmlns="urn:vim25">%s</%sResponse>`, method, returned, method))
}

// cut closes the connection of a request.
func cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}
