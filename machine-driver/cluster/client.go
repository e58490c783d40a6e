package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

const longestAnswer = 16 << 20

// Object is an object of Kubernetes, as it is encoded in JSON.
type Object = map[string]interface{}

// Client sends requests to one API server.
type Client struct {
	server         *url.URL
	http           *http.Client
	token          string
	user, password string
	// Warn is called with the warnings of the server, if it is set.
	Warn func(text string)
}

// Server is the address, for messages.
func (c *Client) Server() string { return c.server.Scheme + "://" + c.server.Host }

// Path is the path of an object, or of a collection if no name is given. Each part is escaped.
func Path(version, namespace, resource string, name ...string) string {
	prefix := "/apis/"
	if !strings.Contains(version, "/") {
		prefix = "/api/"
	}
	path := prefix + version
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + resource
	for _, part := range name {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// Get reads an object into a pointer.
func (c *Client) Get(ctx context.Context, path string, into interface{}) error {
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}

// Create makes an object.
func (c *Client) Create(ctx context.Context, path string, object, into interface{}) error {
	return c.do(ctx, http.MethodPost, path, "application/json", object, into)
}

// Put sends a request of a subresource.
func (c *Client) Put(ctx context.Context, path string, object interface{}) error {
	return c.do(ctx, http.MethodPut, path, "application/json", object, nil)
}

// Patch merges fields into an object.
func (c *Client) Patch(ctx context.Context, path string, object interface{}) error {
	return c.do(ctx, http.MethodPatch, path, "application/merge-patch+json", object, nil)
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, path string, options interface{}) error {
	return c.do(ctx, http.MethodDelete, path, "application/json", options, nil)
}

func (c *Client) do(
	ctx context.Context, method, path, mediaType string, body, into interface{},
) error {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(encoded)
	}
	address := c.Server() + c.server.EscapedPath() + path
	request, err := http.NewRequestWithContext(ctx, method, address, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "docker-machine-driver-laneway")
	if mediaType != "" {
		request.Header.Set("Content-Type", mediaType)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	} else if c.user != "" {
		request.SetBasicAuth(c.user, c.password)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.unreachable(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	if err != nil {
		return c.unreachable(err)
	}
	c.pass(response.Header.Values("Warning"))
	if response.StatusCode >= 300 {
		return c.refused(response.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the answer of %s is not what an API server says", c.Server())
	}
	return nil
}

// pass gives warnings on: `299 - "text"`, with quotes and backslashes within escaped.
func (c *Client) pass(warnings []string) {
	for _, warning := range warnings {
		_, quoted, found := strings.Cut(warning, " \"")
		if !found || c.Warn == nil {
			continue
		}
		text := strings.TrimSuffix(quoted, "\"")
		c.Warn(strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(text))
	}
}
