"""Word tables of the demo corpus. Plain data; `corpus.py` turns it into documents."""

NAMES_SHE = "Mia Lily Anna Ruby Nora Ella Zoe Ivy Clara Luna Rosa Hana Emma Tilda Maya Sara Nina Olive Greta June".split()
NAMES_HE = "Milo Tom Leo Max Otto Finn Sam Hugo Ben Theo Omar Felix Jack Ravi Oscar Paul Nico Erik Adam Louis".split()
NAMES = NAMES_SHE + NAMES_HE

CREATURES = "fox rabbit bear mouse owl cat dog frog hedgehog squirrel duck turtle badger otter dragon robot wolf goat penguin deer".split()
ADJECTIVES = "brave little clever kind shy curious happy quiet young lazy funny gentle".split()
HOMES = ["a small forest", "a quiet village", "a green valley", "a tall tower", "an old castle", "a big city",
         "a warm cave", "a tiny house", "a blue lake", "a sunny farm"]
LOVES = ["to sing", "to read books", "to bake bread", "to climb trees", "to watch the stars", "to paint", "to dance",
         "to count clouds", "to swim", "to tell jokes"]
OBJECTS = "kite hat key map lantern drum book ring ball boat bell scarf spoon crown flute".split()
PLACES = ["the forest", "the garden", "the market", "the old mill", "the river", "the hill", "the library", "the beach",
          "the barn", "the bridge", "the meadow", "the harbour", "the school", "the mountain", "the cave", "the bakery"]
SPOTS = ["a big stone", "an apple tree", "a pile of leaves", "the bed", "a wooden box", "the stairs", "a red blanket",
         "a fallen log"]
FEELINGS = "tired sad cold hungry worried lonely sleepy puzzled".split()
WEATHER = ["It rained all day", "The sun was hot", "The wind was strong", "The fog was thick", "Snow began to fall",
           "The birds were singing"]
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()

NUMBER_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}

LISTS = {
    "animals": "fox owl cat dog horse cow sheep tiger lion bear frog goat wolf zebra whale".split(),
    "fruits": "apple pear plum banana cherry grape mango lemon orange peach melon fig kiwi".split(),
    "colours": "red blue green yellow black white pink purple brown grey orange gold silver".split(),
    "cities": "Paris London Rome Berlin Madrid Oslo Vienna Tokyo Cairo Lima Delhi Dublin Athens".split(),
    "countries": "France Spain Italy Japan Peru Egypt India Kenya Norway Greece Canada Brazil Chile".split(),
    "vegetables": "carrot potato onion tomato pea bean cabbage leek radish pumpkin spinach celery".split(),
    "tools": "hammer saw drill spade rake axe knife brush ladder rope wrench file".split(),
    "drinks": "water milk tea coffee juice cocoa lemonade cider soda broth punch cola".split(),
    "sports": "football tennis golf hockey rugby boxing rowing running cycling skiing judo chess".split(),
    "jobs": "baker doctor teacher farmer pilot nurse painter sailor cook judge tailor singer".split(),
    "instruments": "piano drum flute violin guitar trumpet harp cello organ banjo horn bell".split(),
    "clothes": "hat coat shirt scarf sock shoe glove dress belt jacket skirt boot".split(),
    "birds": "owl duck crow swan robin eagle hawk dove goose parrot penguin stork".split(),
    "trees": "oak pine birch maple willow elm ash cedar palm beech fir poplar".split(),
    "names": "Mia Lily Anna Nora Zoe Ivy Tom Leo Max Otto Finn Sam Hugo Ben".split(),
    "toys": "ball kite doll puzzle robot train drum boat yoyo top block swing".split(),
}

ANIMAL_FACTS = {  # sound, home, food, baby, legs, trait
    "dog": ("barks", "with people", "meat", "puppy", 4, "is a loyal friend"),
    "cat": ("meows", "with people", "mice and fish", "kitten", 4, "sleeps most of the day"),
    "cow": ("moos", "on a farm", "grass", "calf", 4, "gives milk"),
    "sheep": ("bleats", "on a farm", "grass", "lamb", 4, "gives wool"),
    "horse": ("neighs", "on a farm", "hay and grass", "foal", 4, "can run very fast"),
    "duck": ("quacks", "near a pond", "seeds and plants", "duckling", 2, "can swim and fly"),
    "owl": ("hoots", "in the forest", "mice", "owlet", 2, "hunts at night"),
    "lion": ("roars", "in the savanna", "meat", "cub", 4, "lives in a group called a pride"),
    "frog": ("croaks", "near a pond", "insects", "tadpole", 4, "can jump very far"),
    "wolf": ("howls", "in the forest", "meat", "pup", 4, "lives in a pack"),
    "bear": ("growls", "in the forest", "berries and fish", "cub", 4, "sleeps through the winter"),
    "bee": ("buzzes", "in a hive", "nectar", "larva", 6, "makes honey"),
    "pig": ("grunts", "on a farm", "roots and grain", "piglet", 4, "is very clever"),
    "goat": ("bleats", "on a farm", "grass and leaves", "kid", 4, "can climb steep rocks"),
    "snake": ("hisses", "in the grass", "mice", "hatchling", 0, "has a dry and smooth skin"),
    "elephant": ("trumpets", "in the savanna", "leaves and grass", "calf", 4, "has a long trunk"),
}
COUNTRY_FACTS = {  # capital, continent, language, known for
    "France": ("Paris", "Europe", "French", "cheese and bread"),
    "Germany": ("Berlin", "Europe", "German", "cars and castles"),
    "Italy": ("Rome", "Europe", "Italian", "pasta and old cities"),
    "Spain": ("Madrid", "Europe", "Spanish", "sunny beaches"),
    "Norway": ("Oslo", "Europe", "Norwegian", "deep fjords"),
    "Austria": ("Vienna", "Europe", "German", "music and mountains"),
    "Greece": ("Athens", "Europe", "Greek", "old temples"),
    "Ireland": ("Dublin", "Europe", "English", "green hills"),
    "Poland": ("Warsaw", "Europe", "Polish", "amber and lakes"),
    "Portugal": ("Lisbon", "Europe", "Portuguese", "its long coast"),
    "England": ("London", "Europe", "English", "tea and rain"),
    "Japan": ("Tokyo", "Asia", "Japanese", "fast trains"),
    "India": ("Delhi", "Asia", "Hindi", "spices"),
    "China": ("Beijing", "Asia", "Chinese", "the Great Wall"),
    "Egypt": ("Cairo", "Africa", "Arabic", "the pyramids"),
    "Kenya": ("Nairobi", "Africa", "Swahili", "lions and elephants"),
    "Peru": ("Lima", "South America", "Spanish", "high mountains"),
    "Chile": ("Santiago", "South America", "Spanish", "its dry desert"),
    "Brazil": ("Brasilia", "South America", "Portuguese", "the Amazon river"),
    "Canada": ("Ottawa", "North America", "English and French", "maple trees and snow"),
}
FRUIT_FACTS = {  # colour, taste, grows, used for
    "apple": ("red or green", "sweet", "on a tree", "pies and juice"),
    "banana": ("yellow", "sweet", "in warm countries", "cakes and shakes"),
    "lemon": ("yellow", "sour", "on a tree", "lemonade"),
    "cherry": ("red", "sweet", "on a tree", "cakes and jam"),
    "grape": ("green or purple", "sweet", "on a vine", "juice and wine"),
    "plum": ("purple", "sweet", "on a tree", "jam and cakes"),
    "pear": ("green", "sweet", "on a tree", "pies and juice"),
    "tomato": ("red", "fresh", "in the garden", "soup and salad"),
    "carrot": ("orange", "fresh", "under the ground", "soup and salad"),
    "mango": ("orange", "sweet", "in warm countries", "juice and salad"),
    "melon": ("green", "sweet", "on the ground", "salad"),
    "potato": ("brown", "mild", "under the ground", "soup and chips"),
}
JOB_FACTS = {  # does, place, tool, trait
    "baker": ("bakes bread and cakes", "in a bakery", "an oven", "gets up very early"),
    "doctor": ("helps sick people", "in a hospital", "medicine", "studies for many years"),
    "teacher": ("teaches children", "in a school", "books", "is very patient"),
    "farmer": ("grows food", "on a farm", "a tractor", "works in any weather"),
    "pilot": ("flies planes", "in the air", "a plane", "sees many countries"),
    "cook": ("makes meals", "in a kitchen", "pots and pans", "knows many spices"),
    "sailor": ("sails ships", "on the sea", "a ship", "knows the wind"),
    "painter": ("paints pictures", "in a studio", "a brush", "loves colours"),
    "gardener": ("cares for plants", "in a garden", "a spade", "knows every flower"),
    "singer": ("sings songs", "on a stage", "a microphone", "practises every day"),
}
SMALL_TALK = {
    "Hello": "Hello! How can I help you today?",
    "Hi": "Hi! What would you like to hear?",
    "Good morning": "Good morning! I hope you slept well.",
    "How are you": "I am fine, thank you. How are you?",
    "Who are you": "I am the demo model of Baton. I can tell stories, answer small questions, make lists, count and write JSON.",
    "What can you do": "I can tell stories, answer small questions, make lists, count and write JSON.",
    "What is your name": "My name is Baton.",
    "Thank you": "You are welcome!",
    "Thanks": "You are welcome!",
    "Good night": "Good night! Sleep well.",
    "Goodbye": "Goodbye! See you soon.",
    "What is Baton": "Baton is a service that runs language models. It hands a request from prefill to decode like a baton in a race.",
}
