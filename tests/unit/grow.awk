# A header of the library as it may look in a later version: each struct that the library hands out
# by a pointer, or that begins with its size, has three words more, at its end.
/^struct hf_(party|lock_info|voter_info|status|fact|options|lock_options|reason) \{/ { inside = 1 }
inside && /^};/ {
    print "    uint64_t grown[3];"
    inside = 0
}
{ print }
