package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// RefusedError is an answer of the API server that is not a success.
type RefusedError struct {
	Code    int
	Reason  string
	message string
	kind    string
	name    string
	causes  []string
}

func (e *RefusedError) Error() string { return e.message }

// IsGone says whether an error is the API server's word that an object of this resource and name does
// not exist. That a kind or a cluster is not known, which is a 404 as well, says nothing of the object.
func IsGone(err error, resource, name string) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Code == http.StatusNotFound &&
		refused.Reason == "NotFound" && refused.kind == resource && refused.name == name
}

// IsCode says whether the API server answered with this status.
func IsCode(err error, code int) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Code == code
}

// Says whether the API server's message has a text in it.
func Says(err error, text string) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && strings.Contains(refused.message, text)
}

// IsOnly says whether the API server gives reasons for its answer, and all of them are among these.
func IsOnly(err error, reasons ...string) bool {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return false
	}
	for _, cause := range refused.causes {
		if !contains(reasons, cause) {
			return false
		}
	}
	return len(refused.causes) > 0
}

func contains(texts []string, text string) bool {
	for _, one := range texts {
		if one == text {
			return true
		}
	}
	return false
}

// IsTemporary says whether the same request may succeed a moment later.
func IsTemporary(err error) bool {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return true
	}
	return refused.Code == http.StatusTooManyRequests || refused.Code >= 500
}

// webhook is how the API server introduces the words of an admission webhook.
var webhook = regexp.MustCompile(`^admission webhook "[^"]*" denied the request: `)

func (c *Client) refused(code int, answer []byte) error {
	var status struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
		Details struct {
			Kind   string `json:"kind"`
			Name   string `json:"name"`
			Causes []struct {
				Reason string `json:"reason"`
			} `json:"causes"`
		} `json:"details"`
	}
	if json.Unmarshal(answer, &status) != nil || status.Message == "" {
		status.Message = fmt.Sprintf("HTTP status %d", code)
	}
	text := webhook.ReplaceAllString(status.Message, "")
	switch code {
	case http.StatusUnauthorized:
		text = fmt.Sprintf("the API server at %s does not accept the credentials of the kubeconfig. "+
			"They may have expired: renew the cloud credential", c.Server())
	case http.StatusForbidden:
		if status.Message == text && strings.Contains(text, "cannot ") {
			text = fmt.Sprintf("the user of the kubeconfig has not the right: %s", text)
		}
	case http.StatusNotFound:
		if status.Details.Name == "" {
			text = fmt.Sprintf("the API server at %s has no such resource (%s). Is it Harvester's?",
				c.Server(), text)
		}
	}
	refused := &RefusedError{
		Code: code, Reason: status.Reason, message: text,
		kind: status.Details.Kind, name: status.Details.Name,
	}
	for _, cause := range status.Details.Causes {
		refused.causes = append(refused.causes, cause.Reason)
	}
	return refused
}

// unreachable says why there was no answer, without the query and the user of the address.
func (c *Client) unreachable(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		if failed.Timeout() {
			return fmt.Errorf("the API server at %s does not answer within %s", c.Server(), requestTimeout)
		}
		err = failed.Err
	}
	return fmt.Errorf("the API server at %s cannot be reached: %w", c.Server(), err)
}
