"""How is a topic of Kafka read and written? What its sources, its sink and `fogline check` have in common."""
